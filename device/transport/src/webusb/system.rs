//! The operating system's USB devices, by the nusb library.

use async_trait::async_trait;
use nusb::transfer::{Buffer, In, Interrupt, Out};
use nusb::{DeviceInfo, Endpoint};
use tenon_device_framing::PACKET_LENGTH;

use crate::Received;
use crate::webusb::{Interface, UsbDevice, UsbPipe, UsbSystem};

/// The USB devices of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeUsb;

/// Bus and ports of a device in Linux's format: `1-2.3`.
fn path(info: &DeviceInfo) -> String {
    let ports: Vec<String> = info.port_chain().iter().map(u8::to_string).collect();
    let bus = info.bus_id().trim_start_matches('0');
    format!("{}-{}", if bus.is_empty() { "0" } else { bus }, ports.join("."))
}

#[async_trait]
impl UsbSystem for NativeUsb {
    async fn devices(&self) -> Result<Vec<UsbDevice>, String> {
        let device = |info: DeviceInfo| UsbDevice {
            path: path(&info),
            vendor: info.vendor_id(),
            product: info.product_id(),
            classes: info.interfaces().map(|each| (each.interface_number(), each.class())).collect(),
            serial: info.serial_number().map(str::to_owned),
        };
        let devices = nusb::list_devices().await.map_err(|error| error.to_string())?;
        Ok(devices.map(device).collect())
    }

    async fn open(&self, wanted: &str, interface: Interface) -> Result<Box<dyn UsbPipe>, String> {
        let mut devices = nusb::list_devices().await.map_err(|error| error.to_string())?;
        let info = devices.find(|info| path(info) == wanted).ok_or("it is no longer connected")?;
        let device = info.open().await.map_err(|error| error.to_string())?;
        let claimed = device.claim_interface(interface.number).await.map_err(|error| error.to_string())?;
        let to_device = claimed.endpoint::<Interrupt, Out>(interface.endpoint_out);
        let from_device = claimed.endpoint::<Interrupt, In>(interface.endpoint_in);
        Ok(Box::new(NativePipe {
            to_device: to_device.map_err(|error| error.to_string())?,
            from_device: from_device.map_err(|error| error.to_string())?,
        }))
    }
}

struct NativePipe {
    to_device: Endpoint<Interrupt, Out>,
    from_device: Endpoint<Interrupt, In>,
}

#[async_trait]
impl UsbPipe for NativePipe {
    async fn write(&mut self, transfer: &[u8; PACKET_LENGTH]) -> Result<usize, String> {
        // Normally only this transfer is pending. If an earlier future was dropped, the completion of its transfer
        // comes first.
        self.to_device.submit(transfer.to_vec().into());
        let mut written = 0;
        while self.to_device.pending() > 0 {
            let mut done = self.to_device.next_complete().await;
            done.status.map_err(|error| error.to_string())?;
            written = done.actual_len;
            wipe(&mut done.buffer);
        }
        Ok(written)
    }

    async fn read(&mut self) -> Result<Received, String> {
        // A read whose future was dropped is still pending and is used here.
        if self.from_device.pending() == 0 {
            self.from_device.submit(Buffer::new(PACKET_LENGTH));
        }
        let mut done = self.from_device.next_complete().await;
        done.status.map_err(|error| error.to_string())?;
        let received = Received::new(done.buffer[..done.actual_len.min(done.buffer.len())].to_vec());
        wipe(&mut done.buffer);
        Ok(received)
    }
}

/// Overwrites a buffer that may have held a PIN or a passphrase.
fn wipe(buffer: &mut Buffer) {
    zeroize::Zeroize::zeroize(&mut buffer[..]);
}
