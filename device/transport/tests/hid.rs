//! HID with a scripted system; not tested with hardware.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenon_device_framing::Packets;
use tenon_device_transport::{HidDevice, HidHandle, HidSystem, HidTransport, Link, LinkError, Packet, Transport, Wire};
use tokio::time::timeout;

/// A scripted device.
#[derive(Default)]
struct Script {
    devices: Vec<HidDevice>,
    list_error: Option<String>,
    /// Length of the reports that it accepts completely.
    taken_length: usize,
    written: Vec<Vec<u8>>,
    /// Reports to read; an error disconnects the device.
    to_read: VecDeque<Result<Vec<u8>, String>>,
    opened: Vec<String>,
    is_closed: bool,
}

#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<Script>>);

impl HidSystem for Scripted {
    fn devices(&self) -> Result<Vec<HidDevice>, String> {
        let script = self.0.lock().unwrap();
        script.list_error.clone().map_or_else(|| Ok(script.devices.clone()), Err)
    }

    fn open(&self, path: &str) -> Result<Box<dyn HidHandle>, String> {
        self.0.lock().unwrap().opened.push(path.to_owned());
        Ok(Box::new(ScriptedHandle(self.0.clone())))
    }
}

struct ScriptedHandle(Arc<Mutex<Script>>);

impl Drop for ScriptedHandle {
    fn drop(&mut self) {
        self.0.lock().unwrap().is_closed = true;
    }
}

impl HidHandle for ScriptedHandle {
    fn write(&mut self, report: &[u8]) -> Result<usize, String> {
        let mut script = self.0.lock().unwrap();
        script.written.push(report.to_vec());
        if report.len() > 65 { Err("too long".into()) } else { Ok(report.len().min(script.taken_length)) }
    }

    fn read(&mut self, report: &mut [u8], wait: Duration) -> Result<usize, String> {
        let next = self.0.lock().unwrap().to_read.pop_front();
        match next {
            Some(Ok(bytes)) => {
                report[..bytes.len()].copy_from_slice(&bytes);
                Ok(bytes.len())
            }
            Some(Err(error)) => Err(error),
            None => {
                std::thread::sleep(wait);
                Ok(0)
            }
        }
    }
}

fn device(path: &str, interface: i32, usage_page: u16) -> HidDevice {
    let serial = Some("0123456789ABCDEF01234567".into());
    HidDevice { path: path.into(), vendor: 0x534c, product: 1, interface, usage_page, serial }
}

fn scripted(taken_length: usize) -> Scripted {
    let script = Script { devices: vec![device("/dev/hidraw3", 0, 0xff00)], taken_length, ..Script::default() };
    Scripted(Arc::new(Mutex::new(script)))
}

fn packet() -> Packet {
    Packets::new(55, b"").unwrap().next().unwrap()
}

async fn open_link(taken_length: usize) -> (Scripted, Box<dyn Link>) {
    let system = scripted(taken_length);
    let link = HidTransport::new(system.clone()).open("/dev/hidraw3", Wire::Main).await.unwrap();
    (system, link)
}

#[tokio::test]
async fn writes_reports_as_the_probe_found_them() {
    // Version 2 accepts 65 bytes; version 1 accepts only 64 of them and is probed again with 64.
    for (taken_length, probes, length) in [(65, vec![65], 65), (64, vec![65, 64], 64)] {
        let (system, mut link) = open_link(taken_length).await;

        link.send(&packet()).await.unwrap();

        let script = system.0.lock().unwrap();
        let lengths: Vec<usize> = script.written.iter().map(Vec::len).collect();
        assert_eq!(lengths, [probes, vec![length]].concat());
        assert!(script.written.last().unwrap().ends_with(packet().as_bytes()));
    }
}

#[tokio::test]
async fn refuses_a_device_that_accepts_neither_version() {
    let transport = HidTransport::new(scripted(10));

    let error = transport.open("/dev/hidraw3", Wire::Main).await.err().unwrap();

    assert_eq!(error.to_string(), "the device at /dev/hidraw3 cannot be opened: it accepts neither form of a report");
}

#[tokio::test]
async fn a_short_write_is_an_error() {
    let (system, mut link) = open_link(65).await;
    system.0.lock().unwrap().taken_length = 20;

    let error = link.send(&packet()).await.unwrap_err();

    assert_eq!(error, LinkError::ShortWrite { written: 20, length: 65 });
}

#[tokio::test]
async fn reads_reports_and_loses_none_when_a_wait_is_dropped() {
    let (system, mut link) = open_link(65).await;

    assert!(timeout(Duration::from_millis(30), link.receive()).await.is_err());
    let reports = [Ok(vec![1; 64]), Ok(vec![2; 64]), Ok(vec![3; 12])];
    system.0.lock().unwrap().to_read.extend(reports);

    for expected in [vec![1; 64], vec![2; 64], vec![3; 12]] {
        assert_eq!(link.receive().await.unwrap().as_bytes(), expected);
    }
}

#[tokio::test]
async fn writes_while_a_read_waits() {
    let (system, mut link) = open_link(65).await;
    assert!(timeout(Duration::from_millis(30), link.receive()).await.is_err());

    timeout(Duration::from_secs(2), link.send(&packet())).await.unwrap().unwrap();

    assert_eq!(system.0.lock().unwrap().written.len(), 2);
}

#[tokio::test]
async fn reports_a_disconnected_device_and_closes_it() {
    let (system, mut link) = open_link(65).await;
    system.0.lock().unwrap().to_read.push_back(Err("No such device".into()));

    let error = link.receive().await.unwrap_err();

    assert_eq!(error.to_string(), "the connection to the device is lost: No such device");
    assert!(matches!(link.receive().await, Err(LinkError::Lost { .. })));
    assert!(matches!(link.send(&packet()).await, Err(LinkError::Lost { .. })));
}

#[tokio::test]
async fn closes_the_device_when_the_link_is_dropped() {
    let (system, link) = open_link(65).await;

    drop(link);

    for _ in 0..200 {
        if system.0.lock().unwrap().is_closed {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the device is still open");
}

#[tokio::test]
async fn lists_the_main_interface_of_wallets_only() {
    let other = HidDevice { vendor: 0x1234, ..device("/dev/hidraw0", 0, 0xff00) };
    let devices = vec![
        device("/dev/hidraw5", 1, 0xf1d0),
        device("/dev/hidraw4", 0, 0xff00),
        other,
        device("/dev/hidraw2", 0, 0),
        device("/dev/hidraw6", 1, 0xff01),
        device("/dev/hidraw7", 0, 0xf1d0),
    ];
    let system = Scripted(Arc::new(Mutex::new(Script { devices, taken_length: 65, ..Script::default() })));
    let transport = HidTransport::new(system.clone());

    let found: Vec<String> = transport.list().await.unwrap().into_iter().map(|found| found.path).collect();
    let debug = transport.open("/dev/hidraw4", Wire::Debug).await;
    let security_key = transport.open("/dev/hidraw5", Wire::Main).await;

    assert_eq!(found, ["/dev/hidraw2", "/dev/hidraw4"]);
    assert!(debug.is_ok());
    assert_eq!(security_key.err(), Some(LinkError::UnknownPath { path: "/dev/hidraw5".into() }));
    assert_eq!(system.0.lock().unwrap().opened, ["/dev/hidraw6"]);
}

#[tokio::test]
async fn reports_why_devices_cannot_be_listed() {
    let system = scripted(65);
    system.0.lock().unwrap().list_error = Some("Permission denied".into());

    let error = HidTransport::new(system).list().await.unwrap_err();

    assert_eq!(error.to_string(), "devices on hid can't be listed: Permission denied");
}
