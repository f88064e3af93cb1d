//! Packets of hardware wallets, protocol version 1: splits a message into packets of 64 bytes, and joins them again.
//!
//! It owns the packet layout ([`Packets`], [`Reader`]), the rules for writing to a HID device ([`HidVersion`],
//! [`HidProbe`]), and the limits on what a device may send ([`Wire`]).
//!
//! Invariants:
//!
//! - The crate does no I/O, reads no clock and never waits: the transports and the session do.
//! - Memory grows with the received bytes, never with the announced length.
//! - Buffers that may contain a PIN or a passphrase are wiped on drop, and neither `Debug` nor errors show a body.
//! - The crate knows no message by name.
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
