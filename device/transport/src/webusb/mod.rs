//! Devices with current firmware: interrupt transfers over USB (`docs/spec/device.md 3.4`, `3.6`).

mod system;

use std::sync::Arc;

use futures_util::future::BoxFuture;
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
pub trait UsbSystem: Send + Sync + 'static {
    /// Lists all connected USB devices.
    fn devices(&self) -> BoxFuture<'_, Result<Vec<UsbDevice>, String>>;

    /// Opens a device by its path, claims the interface and opens its two endpoints.
    fn open<'a>(&'a self, path: &'a str, interface: Interface) -> BoxFuture<'a, Result<Box<dyn UsbPipe>, String>>;
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
pub trait UsbPipe: Send {
    /// Sends one transfer; returns the number of accepted bytes.
    fn write<'a>(&'a mut self, transfer: &'a [u8; PACKET_LENGTH]) -> BoxFuture<'a, Result<usize, String>>;

    /// Receives the next transfer. Dropping the future loses none.
    fn read(&mut self) -> BoxFuture<'_, Result<Received, String>>;
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

impl Transport for WebUsbTransport {
    fn name(&self) -> &'static str {
        "webusb"
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Found>, LinkError>> {
        Box::pin(async {
            let found = |UsbDevice { path, serial, product, .. }| Found {
                path,
                serial,
                transport: "webusb",
                is_bootloader: product == BOOTLOADER,
            };
            Ok(self.wallets().await?.into_iter().map(found).collect())
        })
    }

    fn open<'a>(&'a self, path: &'a str, wire: Wire) -> BoxFuture<'a, Result<Box<dyn Link>, LinkError>> {
        Box::pin(async move {
            let interface = Interface::of(wire);
            let device = self.wallets().await?.into_iter().find(|device| device.path == path);
            let device = device.ok_or_else(|| LinkError::UnknownPath { path: path.into() })?;
            let error = |reason: String| LinkError::Open { path: path.into(), reason };
            if !device.has_vendor_class(interface.number) {
                return Err(error("it has no debug link".into()));
            }
            let pipe = self.system.open(path, interface).await.map_err(error)?;
            Ok(Box::new(WebUsbLink { pipe }) as Box<dyn Link>)
        })
    }
}

struct WebUsbLink {
    pipe: Box<dyn UsbPipe>,
}

impl Link for WebUsbLink {
    fn send<'a>(&'a mut self, packet: &'a Packet) -> BoxFuture<'a, Result<(), LinkError>> {
        Box::pin(async move {
            let written = self.pipe.write(packet.as_bytes()).await.map_err(LinkError::lost)?;
            if written == PACKET_LENGTH {
                Ok(())
            } else {
                Err(LinkError::ShortWrite { written, length: PACKET_LENGTH })
            }
        })
    }

    fn receive(&mut self) -> BoxFuture<'_, Result<Received, LinkError>> {
        Box::pin(async { self.pipe.read().await.map_err(LinkError::lost) })
    }
}
