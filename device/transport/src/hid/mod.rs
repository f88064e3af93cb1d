//! Devices with firmware up to 1.6.3, which are HID devices (`docs/spec/device.md 3.4`, `3.5`, `3.7`).

mod link;
mod system;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenon_device_framing::Wire;

use crate::{Found, Link, LinkError, Transport};

pub use system::NativeHid;

/// USB vendor and product of Model One, the only device that is reached over HID.
const MODEL_ONE: (u16, u16) = (0x534c, 0x0001);

/// A HID interface, as the operating system lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HidDevice {
    /// The system's path.
    pub path: String,
    /// USB vendor id.
    pub vendor: u16,
    /// USB product id.
    pub product: u16,
    /// Interface number, or -1 if the system does not report it.
    pub interface: i32,
    /// Usage page, or 0 if the system does not report it.
    pub usage_page: u16,
    /// Serial number, if the system reports it.
    pub serial: Option<String>,
}

impl HidDevice {
    /// Whether this is the interface for `wire` of a wallet. Interface 1 may belong to the security key, which has
    /// another usage page, so a reported usage page takes precedence.
    fn carries(&self, wire: Wire) -> bool {
        let (page, interface) = match wire {
            Wire::Main => (0xff00, 0),
            Wire::Debug => (0xff01, 1),
        };
        let is_interface = match self.usage_page {
            0 => self.interface == interface,
            told => told == page,
        };
        (self.vendor, self.product) == MODEL_ONE && is_interface
    }
}

/// The operating system's access to HID devices. The functions may block.
pub trait HidSystem: Send + Sync + 'static {
    /// Lists all connected HID interfaces.
    ///
    /// # Errors
    /// The system's reason.
    fn devices(&self) -> Result<Vec<HidDevice>, String>;

    /// Opens an interface by its path.
    ///
    /// # Errors
    /// The system's reason.
    fn open(&self, path: &str) -> Result<Box<dyn HidHandle>, String>;
}

/// An open HID interface. The functions may block.
pub trait HidHandle: Send {
    /// Writes a report; returns the number of accepted bytes.
    ///
    /// # Errors
    /// The system's reason.
    fn write(&mut self, report: &[u8]) -> Result<usize, String>;

    /// Reads a report; returns its length, or 0 if none arrived in time.
    ///
    /// # Errors
    /// The system's reason.
    fn read(&mut self, report: &mut [u8], timeout: Duration) -> Result<usize, String>;
}

/// The transport for HID devices.
pub struct HidTransport {
    system: Arc<dyn HidSystem>,
}

impl HidTransport {
    /// Creates a transport for the operating system's HID devices, or for scripted ones.
    pub fn new(system: impl HidSystem) -> Self {
        Self { system: Arc::new(system) }
    }
}

#[async_trait]
impl Transport for HidTransport {
    fn name(&self) -> &'static str {
        "hid"
    }

    async fn list(&self) -> Result<Vec<Found>, LinkError> {
        let system = self.system.clone();
        let devices = blocking(move || system.devices()).await;
        let devices = devices.map_err(|reason| LinkError::List { transport: "hid", reason })?;
        let wallets = devices.into_iter().filter(|device| device.carries(Wire::Main));
        let mut found: Vec<Found> = wallets
            .map(|HidDevice { path, serial, .. }| Found { path, serial, transport: "hid", is_bootloader: false })
            .collect();
        found.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }

    async fn open(&self, path: &str, wire: Wire) -> Result<Box<dyn Link>, LinkError> {
        let (system, path) = (self.system.clone(), path.to_owned());
        let opened = path.clone();
        let handle = blocking(move || {
            let devices = system.devices()?;
            let main = devices.iter().find(|device| device.path == opened && device.carries(Wire::Main));
            let Some(main) = main else { return Ok(None) };
            // The debug interface of the same device has its own path.
            let interface = match wire {
                Wire::Main => Some(main),
                Wire::Debug => devices.iter().find(|each| each.carries(wire) && each.serial == main.serial),
            };
            interface.map(|device| system.open(&device.path)).transpose()
        });
        match handle.await {
            Ok(Some(handle)) => Ok(Box::new(link::HidLink::open(path, handle).await?)),
            Ok(None) => Err(LinkError::UnknownPath { path }),
            Err(reason) => Err(LinkError::Open { path, reason }),
        }
    }
}

/// Runs a function that may block. A panic in it becomes an error.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()))
}
