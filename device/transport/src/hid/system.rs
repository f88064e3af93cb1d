//! The operating system's HID devices, by the hidapi library.

use std::ffi::CString;
use std::time::Duration;

use hidapi::HidApi;

use crate::hid::{HidDevice, HidHandle, HidSystem};

/// The HID devices of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeHid;

impl HidSystem for NativeHid {
    fn devices(&self) -> Result<Vec<HidDevice>, String> {
        // A new instance each time, because the library caches its listing. Devices are listed at most about twice a
        // second.
        let api = HidApi::new().map_err(|error| error.to_string())?;
        let device = |info: &hidapi::DeviceInfo| HidDevice {
            path: info.path().to_string_lossy().into_owned(),
            vendor: info.vendor_id(),
            product: info.product_id(),
            interface: info.interface_number(),
            usage_page: info.usage_page(),
            serial: info.serial_number().map(str::to_owned),
        };
        Ok(api.device_list().map(device).collect())
    }

    fn open(&self, path: &str) -> Result<Box<dyn HidHandle>, String> {
        let api = HidApi::new().map_err(|error| error.to_string())?;
        let path = CString::new(path).map_err(|error| error.to_string())?;
        let device = api.open_path(&path).map_err(|error| error.to_string())?;
        Ok(Box::new(NativeHandle(device)))
    }
}

struct NativeHandle(hidapi::HidDevice);

impl HidHandle for NativeHandle {
    fn write(&mut self, report: &[u8]) -> Result<usize, String> {
        self.0.write(report).map_err(|error| error.to_string())
    }

    fn read(&mut self, report: &mut [u8], timeout: Duration) -> Result<usize, String> {
        let timeout = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        self.0.read_timeout(report, timeout).map_err(|error| error.to_string())
    }
}
