//! Transports to hardware wallets: UDP for simulators and emulators, HID for old devices, WebUSB for current ones.
//!
//! It owns the two traits that other crates use ([`Transport`] lists and opens devices, [`Link`] carries packets of 64
//! bytes), their three implementations, and the comparison of the connected devices with the earlier ones
//! ([`Connected`]). Access to the operating system is behind traits ([`HidSystem`], [`UsbSystem`]), so that tests can
//! script it.
//!
//! Invariants:
//!
//! - A link carries whole packets or fails.
//! - Dropping the future of [`Link::receive`] loses no packet.
//! - UDP is sent to loopback addresses only.
//! - A device is not contacted before it is opened.
//! - Neither `Debug` nor errors show a packet, and every packet is wiped on drop.
//! - The crate knows no messages.

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
