//! The handle of a running device, and in-memory links to it.

use std::sync::Arc;

use async_trait::async_trait;
use tenon_device_transport::{Found, Link, LinkError, PACKET_LENGTH, Packet, Received, Transport, Wire};
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::device::{Device, Input};
use crate::shared::{Observed, Shared};
use crate::{FaultPlan, SimulatorSettings};

/// Maximum number of packets waiting in each direction. As with a real device, a host that does not read blocks the
/// device.
const WAITING_PACKETS: usize = 512;

/// The receivers of a device's two interfaces. A lock is held while waiting for a packet, so that there is only one
/// reader at a time and a dropped one loses nothing.
struct Outgoing {
    main: AsyncMutex<mpsc::Receiver<[u8; PACKET_LENGTH]>>,
    debug: AsyncMutex<mpsc::Receiver<[u8; PACKET_LENGTH]>>,
}

/// A running device. Dropping it ends the device.
pub struct Simulator {
    shared: Arc<Shared>,
    input: mpsc::Sender<Input>,
    outgoing: Arc<Outgoing>,
    is_plugged: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Simulator {
    /// Starts a device on the current tokio runtime.
    pub fn start(settings: SimulatorSettings) -> Self {
        let (input, inbox) = mpsc::channel(WAITING_PACKETS);
        let (main, from_main) = mpsc::channel(WAITING_PACKETS);
        let (debug, from_debug) = mpsc::channel(WAITING_PACKETS);
        let (is_plugged, _) = watch::channel(true);
        let shared = Arc::new(Shared::default());
        let device = Device::new(settings, shared.clone(), inbox, [main, debug], is_plugged.clone());
        let task = tokio::spawn(device.run());
        let outgoing = Outgoing { main: AsyncMutex::new(from_main), debug: AsyncMutex::new(from_debug) };
        Self { shared, input, outgoing: Arc::new(outgoing), is_plugged, task }
    }

    /// The observations so far.
    pub fn observed(&self) -> Observed {
        self.shared.observed.lock().clone()
    }

    /// What the device shows and a person types elsewhere: the keypad of a PIN, with the positions of the right one.
    /// `None` while it shows nothing of the kind.
    pub fn screens(&self) -> watch::Receiver<Option<String>> {
        self.shared.screen.subscribe()
    }

    /// The device id, which changes when the device is wiped.
    pub fn device_id(&self) -> String {
        self.shared.device_id.lock().clone()
    }

    /// Plans a fault, counted from now, replacing an earlier plan.
    pub fn plan_fault(&self, plan: FaultPlan) {
        *self.shared.fault.lock() = Some(plan);
    }

    /// Presses a button: confirms or rejects the current screen.
    pub async fn decide(&self, is_confirmed: bool) {
        // Fails only if the device has ended.
        let _ = self.input.send(Input::Decided(is_confirmed)).await;
    }

    /// Disconnects the device: it loses its volatile state, and its links fail.
    pub fn unplug(&self) {
        self.is_plugged.send_replace(false);
    }

    /// Connects the device again.
    pub async fn plug(&self) {
        let _ = self.input.send(Input::PowerLost).await;
        self.is_plugged.send_replace(true);
    }

    /// Replaces the device with another one that has the same seed and a different id.
    pub async fn swap_device_id(&self) {
        let (done, is_done) = oneshot::channel();
        // Fails only if the device has ended.
        let _ = self.input.send(Input::Swapped(done)).await;
        let _ = is_done.await;
    }

    /// Whether the device is connected.
    pub fn is_plugged(&self) -> bool {
        *self.is_plugged.borrow()
    }

    /// Creates an in-memory link to the device. Two links to one interface receive each other's packets, like two
    /// hosts.
    pub fn link(&self, wire: Wire) -> MemoryLink {
        MemoryLink {
            wire,
            input: self.input.clone(),
            outgoing: self.outgoing.clone(),
            is_plugged: self.is_plugged.subscribe(),
        }
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An in-memory link.
pub struct MemoryLink {
    wire: Wire,
    input: mpsc::Sender<Input>,
    outgoing: Arc<Outgoing>,
    is_plugged: watch::Receiver<bool>,
}

impl MemoryLink {
    /// Sends 64 bytes unchanged.
    ///
    /// # Errors
    /// [`LinkError::Lost`] if the device is disconnected or has ended.
    pub async fn send_bytes(&mut self, packet: [u8; PACKET_LENGTH]) -> Result<(), LinkError> {
        let gone = || LinkError::Lost { reason: "the simulated device was disconnected".into() };
        if !*self.is_plugged.borrow() {
            return Err(gone());
        }
        self.input.send(Input::Packet(self.wire, packet)).await.map_err(|_| gone())
    }

    async fn next(&mut self) -> Result<Received, LinkError> {
        let gone = || LinkError::Lost { reason: "the simulated device was disconnected".into() };
        let wire = match self.wire {
            Wire::Main => &self.outgoing.main,
            Wire::Debug => &self.outgoing.debug,
        };
        let mut packets = wire.lock().await;
        tokio::select! {
            biased;
            _ = self.is_plugged.wait_for(|is_plugged| !is_plugged) => Err(gone()),
            packet = packets.recv() => packet.map(|packet| Received::new(packet.to_vec())).ok_or_else(gone),
        }
    }
}

#[async_trait]
impl Link for MemoryLink {
    async fn send(&mut self, packet: &Packet) -> Result<(), LinkError> {
        self.send_bytes(*packet.as_bytes()).await
    }

    async fn receive(&mut self) -> Result<Received, LinkError> {
        self.next().await
    }
}

/// A transport for simulated devices in memory.
pub struct MemoryTransport(pub Vec<(String, Arc<Simulator>)>);

#[async_trait]
impl Transport for MemoryTransport {
    fn name(&self) -> &'static str {
        "memory"
    }

    async fn list(&self) -> Result<Vec<Found>, LinkError> {
        let plugged = self.0.iter().filter(|(_, simulator)| simulator.is_plugged());
        let found = plugged.map(|(path, simulator)| Found {
            path: path.clone(),
            serial: Some(simulator.device_id()),
            transport: "memory",
            is_bootloader: false,
        });
        Ok(found.collect())
    }

    async fn open(&self, path: &str, wire: Wire) -> Result<Box<dyn Link>, LinkError> {
        let found = self.0.iter().find(|(known, simulator)| known == path && simulator.is_plugged());
        let (_, simulator) = found.ok_or_else(|| LinkError::UnknownPath { path: path.into() })?;
        Ok(Box::new(simulator.link(wire)))
    }
}
