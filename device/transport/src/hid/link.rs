//! An open HID device. Its handle blocks, so it is owned by a separate thread.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use tenon_device_framing::{HidProbe, HidVersion, PACKET_LENGTH, Packet, ProbeStep};
use tokio::sync::{mpsc, oneshot};
use zeroize::Zeroizing;

use crate::hid::HidHandle;
use crate::{Link, LinkError, Received};

/// Maximum time of one read before the thread checks for packets to write. A read returns at once when a packet
/// arrives.
const READ_TURN: Duration = Duration::from_millis(10);

/// Maximum number of received packets that wait for the session. The session reads longer messages while they arrive.
const RECEIVED_CAPACITY: usize = 64;

enum Order {
    Write(Packet, oneshot::Sender<Result<(), LinkError>>),
    /// Read until one packet has arrived.
    Read,
}

/// The session's side of the thread. Dropping it ends the thread and closes the device.
pub(crate) struct HidLink {
    orders: Sender<Order>,
    received: mpsc::Receiver<Result<Received, LinkError>>,
    /// Whether the thread was ordered to read and has not delivered yet. Stays set when a [`Link::receive`] is dropped.
    is_reading: bool,
}

impl HidLink {
    /// Determines the version of the device's reports and starts the thread.
    pub(crate) async fn open(path: String, handle: Box<dyn HidHandle>) -> Result<Self, LinkError> {
        let (orders, receive_orders) = channel();
        let (deliver, received) = mpsc::channel(RECEIVED_CAPACITY);
        let (ready, is_ready) = oneshot::channel();
        let run = move || {
            let mut handle = handle;
            match probe(handle.as_mut()) {
                Ok(version) => {
                    // The receiver may have given up waiting.
                    let _ = ready.send(Ok(()));
                    Thread { handle, version, orders: receive_orders, deliver }.run();
                }
                Err(reason) => drop(ready.send(Err(reason))),
            }
        };
        let error = |reason: String| LinkError::Open { path: path.clone(), reason };
        thread::Builder::new().name("device-hid".into()).spawn(run).map_err(|cause| error(cause.to_string()))?;
        is_ready.await.map_err(|_| error("its thread ended".into()))?.map_err(error)?;
        Ok(Self { orders, received, is_reading: false })
    }

    fn order(&self, order: Order) -> Result<(), LinkError> {
        self.orders.send(order).map_err(|_| LinkError::lost("the device was closed"))
    }
}

#[async_trait]
impl Link for HidLink {
    async fn send(&mut self, packet: &Packet) -> Result<(), LinkError> {
        let (done, is_done) = oneshot::channel();
        self.order(Order::Write(packet.clone(), done))?;
        is_done.await.map_err(|_| LinkError::lost("the device was closed"))?
    }

    async fn receive(&mut self) -> Result<Received, LinkError> {
        if !self.is_reading {
            self.order(Order::Read)?;
            self.is_reading = true;
        }
        let received = self.received.recv().await;
        self.is_reading = false;
        received.unwrap_or_else(|| Err(LinkError::lost("the device was closed")))
    }
}

/// Determines whether reports are numbered (`docs/spec/device.md 3.5`).
fn probe(handle: &mut dyn HidHandle) -> Result<HidVersion, String> {
    let mut probe = HidProbe::new();
    loop {
        let written = handle.write(probe.report().as_bytes()).ok();
        match probe.written(written) {
            ProbeStep::Known(version) => return Ok(version),
            ProbeStep::Ask(next) => probe = next,
            ProbeStep::Unknown => return Err("it accepts neither form of a report".into()),
        }
    }
}

/// State of the thread.
struct Thread {
    handle: Box<dyn HidHandle>,
    version: HidVersion,
    orders: Receiver<Order>,
    deliver: mpsc::Sender<Result<Received, LinkError>>,
}

impl Thread {
    /// Runs until the link is dropped or the device fails.
    fn run(mut self) {
        let mut is_reading = false;
        loop {
            let order = if is_reading {
                match self.orders.try_recv() {
                    Ok(order) => Some(order),
                    Err(TryRecvError::Empty) => None,
                    Err(TryRecvError::Disconnected) => return,
                }
            } else {
                match self.orders.recv_timeout(Duration::MAX) {
                    Ok(order) => Some(order),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            };
            match order {
                Some(Order::Write(packet, done)) => drop(done.send(self.write(&packet))),
                Some(Order::Read) => is_reading = true,
                None => {
                    let Some(received) = self.read().transpose() else { continue };
                    let is_over = received.is_err();
                    is_reading = false;
                    if self.deliver.blocking_send(received).is_err() || is_over {
                        return;
                    }
                }
            }
        }
    }

    fn write(&mut self, packet: &Packet) -> Result<(), LinkError> {
        let report = self.version.report(packet);
        let length = report.as_bytes().len();
        let written = self.handle.write(report.as_bytes()).map_err(LinkError::lost)?;
        if written == length { Ok(()) } else { Err(LinkError::ShortWrite { written, length }) }
    }

    fn read(&mut self) -> Result<Option<Received>, LinkError> {
        let mut report = Zeroizing::new([0; PACKET_LENGTH]);
        let length = self.handle.read(report.as_mut_slice(), READ_TURN).map_err(LinkError::lost)?;
        Ok((length > 0).then(|| Received::new(report[..length.min(PACKET_LENGTH)].to_vec())))
    }
}
