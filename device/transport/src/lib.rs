//! Ways to hardware wallets: UDP for simulators and emulators, HID for old devices, WebUSB for today's.
//!
//! It owns the two traits that the rest talks to ([`Transport`] finds and opens devices, [`Link`] carries packets of 64
//! bytes), their three implementations, and the comparison of what was connected before and now ([`Connected`]). What an
//! operating system does stands behind seams of its own ([`HidSystem`], [`UsbSystem`]), so that tests can script it.
//!
//! What must always hold: a link carries whole packets or fails; [`Link::receive`] loses nothing when its future is
//! dropped; UDP goes to loopback addresses only; a device is touched only when it is opened. No packet is shown by
//! `Debug` or an error, and each is wiped when it is dropped. It knows no message.

#![forbid(unsafe_code)]

mod connected;
mod error;
pub mod hid;
mod link;
pub mod udp;
pub mod webusb;

pub use connected::{Change, Connected};
pub use error::LinkError;
pub use hid::{HidDevice, HidHandle, HidSystem, HidTransport};
pub use link::{Found, Link, Received, Transport};
pub use tenon_device_framing::{PACKET_LENGTH, Packet, Wire};
pub use udp::UdpTransport;
pub use webusb::{UsbDevice, UsbPipe, UsbSystem, WebUsbTransport};
