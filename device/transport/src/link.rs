//! What a transport and an open device are to the rest.

use std::fmt;

use futures_util::future::BoxFuture;
use tenon_device_framing::{Packet, Wire};
use zeroize::Zeroizing;

use crate::LinkError;

/// A device that is connected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Found {
    /// Where it is; opaque, stable while it stays connected. Follows `trezor://` in its wallet's URL.
    pub path: String,
    /// The serial number, where the transport tells it without opening the device. Changes when the device is wiped.
    pub serial: Option<String>,
    /// The transport's name.
    pub transport: &'static str,
    /// Whether the bootloader runs in place of the firmware: such a device can't be used as a wallet.
    pub is_bootloader: bool,
}

/// What came over a link at once: 64 bytes from a sound device. Wiped when it is dropped; `Debug` shows its length only.
#[derive(Clone, PartialEq, Eq)]
pub struct Received(Zeroizing<Vec<u8>>);

impl Received {
    /// Takes the bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes, of whatever length came.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Received").field("length", &self.0.len()).finish()
    }
}

/// An open device: packets to it and from it. Dropping it closes the device.
pub trait Link: Send {
    /// Sends a packet, whole.
    fn send<'a>(&'a mut self, packet: &'a Packet) -> BoxFuture<'a, Result<(), LinkError>>;

    /// The next packet. Waits as long as the device takes; dropping the future loses no packet.
    fn receive(&mut self) -> BoxFuture<'_, Result<Received, LinkError>>;
}

/// One way to reach devices.
pub trait Transport: Send + Sync {
    /// Its name: `udp`, `hid` or `webusb`.
    fn name(&self) -> &'static str;

    /// The devices that are connected now, by path. Opens none.
    fn list(&self) -> BoxFuture<'_, Result<Vec<Found>, LinkError>>;

    /// Opens an interface of a device that [`Transport::list`] gave.
    fn open<'a>(&'a self, path: &'a str, wire: Wire) -> BoxFuture<'a, Result<Box<dyn Link>, LinkError>>;
}
