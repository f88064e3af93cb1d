//! Packets of hardware wallets, protocol version 1: a message is cut into packets of 64 bytes and joined again.
//!
//! It owns the layout of packets ([`Packets`], [`Reader`]), the rule by which a HID device is written to
//! ([`HidVersion`], [`HidProbe`]), and the bounds on what a device may send ([`Wire`]).
//!
//! What must always hold: it does no input and no output, looks at no clock and waits for nothing; the transports and
//! the session do. What a message announces is never set aside before its bytes have come. Buffers that may hold a PIN or
//! a passphrase are wiped when they are dropped, and nothing here shows a body: neither `Debug` nor an error. It knows no
//! message by name.
//!
//! ```
//! use tenon_device_framing::{Packets, Reader, Wire};
//!
//! let mut reader = Reader::new(Wire::Main);
//! let mut read = None;
//! for packet in Packets::new(0x0038, &[8; 100])? {
//!     read = reader.push(packet.as_bytes())?;
//! }
//! let message = read.ok_or("no message")?;
//! assert_eq!((message.id, message.body.as_slice()), (0x0038, [8; 100].as_slice()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod hid;
mod packet;
mod reader;

pub use hid::{HidProbe, HidReport, HidVersion, ProbeStep};
pub use packet::{MessageTooLong, PACKET_LENGTH, Packet, Packets, packet_count};
pub use reader::{FrameError, Message, Reader, Wire};
