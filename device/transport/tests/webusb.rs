//! WebUSB with a scripted system; not tested with hardware.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tenon_device_framing::Packets;
use tenon_device_transport::webusb::Interface;
use tenon_device_transport::{
    LinkError, PACKET_LENGTH, Packet, Received, Transport, UsbDevice, UsbPipe, UsbSystem, WebUsbTransport, Wire,
};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Transfers of a device's endpoint, in order.
type Reads = mpsc::Receiver<Result<Vec<u8>, String>>;

struct Script {
    devices: Vec<UsbDevice>,
    opened: Mutex<Vec<(String, Interface)>>,
    written: Mutex<Vec<Vec<u8>>>,
    taken: usize,
    to_read: Mutex<Option<Reads>>,
}

#[derive(Clone)]
struct Scripted(Arc<Script>);

#[async_trait]
impl UsbSystem for Scripted {
    async fn devices(&self) -> Result<Vec<UsbDevice>, String> {
        Ok(self.0.devices.clone())
    }

    async fn open(&self, path: &str, interface: Interface) -> Result<Box<dyn UsbPipe>, String> {
        self.0.opened.lock().unwrap().push((path.to_owned(), interface));
        let to_read = self.0.to_read.lock().unwrap().take().ok_or("Resource busy")?;
        Ok(Box::new(ScriptedPipe { script: self.0.clone(), to_read }))
    }
}

struct ScriptedPipe {
    script: Arc<Script>,
    to_read: mpsc::Receiver<Result<Vec<u8>, String>>,
}

#[async_trait]
impl UsbPipe for ScriptedPipe {
    async fn write(&mut self, transfer: &[u8; PACKET_LENGTH]) -> Result<usize, String> {
        self.script.written.lock().unwrap().push(transfer.to_vec());
        Ok(self.script.taken)
    }

    async fn read(&mut self) -> Result<Received, String> {
        self.to_read.recv().await.unwrap_or(Err("pulled".into())).map(Received::new)
    }
}

fn device(path: &str, product: u16, classes: &[(u8, u8)]) -> UsbDevice {
    UsbDevice { path: path.into(), vendor: 0x1209, product, classes: classes.to_vec(), serial: Some("1".into()) }
}

fn scripted(taken: usize) -> (Scripted, mpsc::Sender<Result<Vec<u8>, String>>) {
    let (send, receive) = mpsc::channel(8);
    let devices = vec![
        device("3-1", 0x53c0, &[(0, 0xff)]),
        device("1-2", 0x53c1, &[(0, 0xff), (1, 0x03)]),
        device("1-4", 0x53c1, &[(0, 0xff), (1, 0xff), (2, 0x03)]),
        device("1-5", 0x53c1, &[(0, 0x03)]),
        UsbDevice { vendor: 0x1234, ..device("1-6", 0x53c1, &[(0, 0xff)]) },
        device("1-7", 0x1111, &[(0, 0xff)]),
    ];
    let script = Script {
        devices,
        opened: Mutex::default(),
        written: Mutex::default(),
        taken,
        to_read: Mutex::new(Some(receive)),
    };
    (Scripted(Arc::new(script)), send)
}

fn packet() -> Packet {
    Packets::new(55, b"").unwrap().next().unwrap()
}

#[tokio::test]
async fn lists_wallets_and_recognises_bootloaders() {
    let transport = WebUsbTransport::new(scripted(64).0);

    let found = transport.list().await.unwrap();

    let found: Vec<(&str, bool)> = found.iter().map(|found| (found.path.as_str(), found.is_bootloader)).collect();
    assert_eq!(found, [("1-2", false), ("1-4", false), ("3-1", true)]);
}

#[tokio::test]
async fn opens_the_interface_of_the_wire_and_never_the_security_keys() {
    let (system, _send) = scripted(64);
    let transport = WebUsbTransport::new(system.clone());

    let no_debug = transport.open("1-2", Wire::Debug).await.err().unwrap();
    let opened = transport.open("1-4", Wire::Debug).await;
    let busy = transport.open("1-2", Wire::Main).await.err().unwrap();
    let unknown = transport.open("1-5", Wire::Main).await.err().unwrap();

    assert!(opened.is_ok());
    assert_eq!(no_debug.to_string(), "the device at 1-2 cannot be opened: it has no debug link");
    assert_eq!(busy.to_string(), "the device at 1-2 cannot be opened: Resource busy");
    assert_eq!(unknown, LinkError::UnknownPath { path: "1-5".into() });
    let debug = Interface { number: 1, endpoint_out: 0x02, endpoint_in: 0x82 };
    let main = Interface { number: 0, endpoint_out: 0x01, endpoint_in: 0x81 };
    assert_eq!(*system.0.opened.lock().unwrap(), [("1-4".to_owned(), debug), ("1-2".to_owned(), main)]);
}

#[tokio::test]
async fn carries_packets_without_a_report_number() {
    let (system, send) = scripted(64);
    let mut link = WebUsbTransport::new(system.clone()).open("1-2", Wire::Main).await.unwrap();

    link.send(&packet()).await.unwrap();
    assert!(timeout(Duration::from_millis(20), link.receive()).await.is_err());
    send.send(Ok(vec![5; 64])).await.unwrap();

    assert_eq!(*system.0.written.lock().unwrap(), [packet().as_bytes().to_vec()]);
    assert_eq!(link.receive().await.unwrap().as_bytes(), [5; 64]);
    drop(send);
    assert_eq!(link.receive().await.unwrap_err().to_string(), "the connection to the device is lost: pulled");
}

#[tokio::test]
async fn a_short_transfer_is_an_error() {
    let (system, _send) = scripted(63);
    let mut link = WebUsbTransport::new(system).open("1-2", Wire::Main).await.unwrap();

    let error = link.send(&packet()).await.unwrap_err();

    assert_eq!(error, LinkError::ShortWrite { written: 63, length: 64 });
}
