//! Devices with current firmware: interrupt transfers over USB (`docs/spec/device.md 3.4`, `3.6`).

mod system;

use std::sync::Arc;

use async_trait::async_trait;
use tenon_device_framing::{PACKET_LENGTH, Packet, Wire};

use crate::{Found, Link, LinkError, Received, Transport};

pub use system::NativeUsb;

/// USB vendor id of all these devices.
const VENDOR: u16 = 0x1209;

/// USB product id while the firmware runs.
const FIRMWARE: u16 = 0x53c1;

/// USB product id while the bootloader runs.
const BOOTLOADER: u16 = 0x53c0;

/// The vendor-specific class. A HID interface with the same number would be the security key's.
const VENDOR_CLASS: u8 = 0xff;

/// A USB device, as the operating system lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsbDevice {
    /// Bus and ports of the device: `1-2.3`.
    pub path: String,
    /// USB vendor id.
    pub vendor: u16,
    /// USB product id.
    pub product: u16,
    /// Interfaces, as number and class.
    pub classes: Vec<(u8, u8)>,
    /// Serial number, if the system reports it.
    pub serial: Option<String>,
}

impl UsbDevice {
    fn has_vendor_class(&self, interface: u8) -> bool {
        self.classes.contains(&(interface, VENDOR_CLASS))
    }

    fn is_wallet(&self) -> bool {
        self.vendor == VENDOR && matches!(self.product, FIRMWARE | BOOTLOADER) && self.has_vendor_class(0)
    }
}

/// The operating system's access to USB devices.
#[async_trait]
pub trait UsbSystem: Send + Sync + 'static {
    /// Lists all connected USB devices.
    async fn devices(&self) -> Result<Vec<UsbDevice>, String>;

    /// Opens a device by its path, claims the interface and opens its two endpoints.
    async fn open(&self, path: &str, interface: Interface) -> Result<Box<dyn UsbPipe>, String>;
}

/// An interface and its endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface number.
    pub number: u8,
    /// Endpoint to the device.
    pub endpoint_out: u8,
    /// Endpoint from the device.
    pub endpoint_in: u8,
}

impl Interface {
    const fn of(wire: Wire) -> Self {
        match wire {
            Wire::Main => Self { number: 0, endpoint_out: 0x01, endpoint_in: 0x81 },
            Wire::Debug => Self { number: 1, endpoint_out: 0x02, endpoint_in: 0x82 },
        }
    }
}

/// An open interface.
#[async_trait]
pub trait UsbPipe: Send {
    /// Sends one transfer; returns the number of accepted bytes.
    async fn write(&mut self, transfer: &[u8; PACKET_LENGTH]) -> Result<usize, String>;

    /// Receives the next transfer. Dropping the future loses none.
    async fn read(&mut self) -> Result<Received, String>;
}

/// The transport for devices over WebUSB.
pub struct WebUsbTransport {
    system: Arc<dyn UsbSystem>,
}

impl WebUsbTransport {
    /// Creates a transport for the operating system's USB devices, or for scripted ones.
    pub fn new(system: impl UsbSystem) -> Self {
        Self { system: Arc::new(system) }
    }

    async fn wallets(&self) -> Result<Vec<UsbDevice>, LinkError> {
        let devices = self.system.devices().await;
        let mut devices = devices.map_err(|reason| LinkError::List { transport: "webusb", reason })?;
        devices.retain(UsbDevice::is_wallet);
        devices.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(devices)
    }
}

#[async_trait]
impl Transport for WebUsbTransport {
    fn name(&self) -> &'static str {
        "webusb"
    }

    async fn list(&self) -> Result<Vec<Found>, LinkError> {
        let found = |UsbDevice { path, serial, product, .. }| Found {
            path,
            serial,
            transport: "webusb",
            is_bootloader: product == BOOTLOADER,
        };
        Ok(self.wallets().await?.into_iter().map(found).collect())
    }

    async fn open(&self, path: &str, wire: Wire) -> Result<Box<dyn Link>, LinkError> {
        let interface = Interface::of(wire);
        let device = self.wallets().await?.into_iter().find(|device| device.path == path);
        let device = device.ok_or_else(|| LinkError::UnknownPath { path: path.into() })?;
        let error = |reason: String| LinkError::Open { path: path.into(), reason };
        if !device.has_vendor_class(interface.number) {
            return Err(error("it has no debug link".into()));
        }
        let pipe = self.system.open(path, interface).await.map_err(error)?;
        Ok(Box::new(WebUsbLink { pipe }))
    }
}

struct WebUsbLink {
    pipe: Box<dyn UsbPipe>,
}

#[async_trait]
impl Link for WebUsbLink {
    async fn send(&mut self, packet: &Packet) -> Result<(), LinkError> {
        let written = self.pipe.write(packet.as_bytes()).await.map_err(LinkError::lost)?;
        if written == PACKET_LENGTH { Ok(()) } else { Err(LinkError::ShortWrite { written, length: PACKET_LENGTH }) }
    }

    async fn receive(&mut self) -> Result<Received, LinkError> {
        self.pipe.read().await.map_err(LinkError::lost)
    }
}
