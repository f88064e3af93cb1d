//! The interfaces of a transport and an open device.

use async_trait::async_trait;
use tenon_device_framing::{Packet, Wire};
use zeroize::Zeroizing;

use crate::LinkError;

/// A connected device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Found {
    /// Opaque location, stable while the device stays connected. Follows `trezor://` in the URL of its wallet.
    pub path: String,
    /// Serial number, if the transport reports it without opening the device. It changes when the device is wiped.
    pub serial: Option<String>,
    /// The transport's name.
    pub transport: &'static str,
    /// Whether the device runs its bootloader instead of the firmware, and so can't be used as a wallet.
    pub is_bootloader: bool,
}

/// The bytes of one receive: 64 from a working device. Wiped on drop, and `Debug` shows only the length.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("Received({} bytes)", self.0.len())]
pub struct Received(Zeroizing<Vec<u8>>);

impl Received {
    /// Wraps the bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The received bytes, of any length.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// An open device, to which packets are sent and from which they are received. Dropping it closes the device.
#[async_trait]
pub trait Link: Send {
    /// Sends a whole packet.
    async fn send(&mut self, packet: &Packet) -> Result<(), LinkError>;

    /// Receives the next packet. Waits as long as the device takes; dropping the future loses no packet.
    async fn receive(&mut self) -> Result<Received, LinkError>;
}

/// A way to reach devices.
#[async_trait]
pub trait Transport: Send + Sync {
    /// The name: `udp`, `hid` or `webusb`.
    fn name(&self) -> &'static str;

    /// Lists the connected devices, by path, without opening any.
    async fn list(&self) -> Result<Vec<Found>, LinkError>;

    /// Opens an interface of a device that [`Transport::list`] returned.
    async fn open(&self, path: &str, wire: Wire) -> Result<Box<dyn Link>, LinkError>;
}
