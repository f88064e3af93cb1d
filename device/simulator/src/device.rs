//! The device: one task that receives packets and button presses, and handles one message at a time.

use std::sync::Arc;

use rand::RngCore as _;
use tenon_device_framing::{Message, PACKET_LENGTH, Packets};
use tenon_device_transport::Wire;
use tenon_proto::common::{ButtonRequest, Failure, Success};
use tenon_proto::{Flag, WireMessage, registry};
use tokio::sync::{mpsc, oneshot, watch};

use crate::model::Line;
use crate::reader::{DeviceReader, Reading};
use crate::shared::{MAX_RECORDED_MESSAGES, Shared};
use crate::storage::{Ram, Storage};
use crate::transaction::Signing;
use crate::{Approval, Fault, Model, SimulatorSettings};

/// Input of a device.
#[derive(Debug)]
pub(crate) enum Input {
    Packet(Wire, [u8; PACKET_LENGTH]),
    /// A button press: confirmed or rejected.
    Decided(bool),
    PowerLost,
    /// Another device with the same seed replaces this one.
    Swapped(oneshot::Sender<()>),
}

/// How a device treats the messages that it receives.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode<'wanted> {
    /// Between prompts. Model One accepts all requests in this mode.
    Normal,
    /// While a prompt waits for one of these responses.
    Prompt(&'wanted [u16]),
}

/// Input that a device acts on.
pub(crate) enum DeviceInput {
    Message(Message),
    Decided(bool),
}

/// Why a flow ended without its final response.
pub(crate) enum Stop {
    /// Respond with a failure of this code and text.
    Failure(u32, &'static str),
    /// The response was already sent.
    Silent,
    /// Another request replaces the current one.
    Replaced(Message),
    /// The device lost power.
    PowerLost,
    /// The simulator was dropped.
    Closed,
}

pub(crate) type FlowResult<T> = Result<T, Stop>;

/// Failure codes.
pub(crate) mod code {
    pub(crate) const UNEXPECTED_MESSAGE: u32 = 1;
    pub(crate) const DATA_ERROR: u32 = 3;
    pub(crate) const ACTION_CANCELLED: u32 = 4;
    pub(crate) const PIN_CANCELLED: u32 = 6;
    pub(crate) const PIN_INVALID: u32 = 7;
    pub(crate) const PROCESS_ERROR: u32 = 9;
    pub(crate) const NOT_INITIALIZED: u32 = 11;
    pub(crate) const PIN_MISMATCH: u32 = 12;
    pub(crate) const FIRMWARE_ERROR: u32 = 99;
}

/// Ids of messages that the device recognises before decoding them.
pub(crate) mod id {
    pub(crate) const INITIALIZE: u16 = 0;
    pub(crate) const PIN_MATRIX_ACK: u16 = 19;
    pub(crate) const CANCEL: u16 = 20;
    pub(crate) const BUTTON_ACK: u16 = 27;
    pub(crate) const PASSPHRASE_ACK: u16 = 42;
    pub(crate) const ETHEREUM_TX_ACK: u16 = 60;
    pub(crate) const PASSPHRASE_STATE_ACK: u16 = 78;
    pub(crate) const DEBUG_LINK_DECISION: u16 = 100;
}

/// Requests that all simulated models handle.
const REQUESTS: [u16; 21] = [0, 1, 4, 5, 9, 11, 13, 14, 20, 24, 25, 28, 55, 56, 58, 60, 63, 64, 65, 450, 34];

/// Messages to which Model One responds even outside of their flow.
const ONE_STRAY: [u16; 2] = [36, 47];

/// Requests of the debug link.
const DEBUG_REQUESTS: [u16; 4] = [101, 103, 110, 112];

/// Number of button requests that simulates endless ones.
const ENDLESS: usize = 100_000;

pub(crate) struct Device {
    pub(crate) settings: SimulatorSettings,
    pub(crate) model: Model,
    pub(crate) line: Line,
    pub(crate) storage: Storage,
    pub(crate) ram: Ram,
    /// A transaction whose data is still being received. Model One handles other requests in between.
    pub(crate) signing: Option<Signing>,
    /// The arrangement of digits shown on the screen.
    pub(crate) pin_matrix: Option<[u8; 9]>,
    pub(crate) shared: Arc<Shared>,
    inbox: mpsc::Receiver<Input>,
    outgoing: [mpsc::Sender<[u8; PACKET_LENGTH]>; 2],
    readers: [DeviceReader; 2],
    is_plugged: watch::Sender<bool>,
}

const fn index(wire: Wire) -> usize {
    match wire {
        Wire::Main => 0,
        Wire::Debug => 1,
    }
}

impl Device {
    pub(crate) fn new(
        settings: SimulatorSettings,
        shared: Arc<Shared>,
        inbox: mpsc::Receiver<Input>,
        outgoing: [mpsc::Sender<[u8; PACKET_LENGTH]>; 2],
        is_plugged: watch::Sender<bool>,
    ) -> Self {
        let (model, line) = (settings.model, settings.model.line());
        let storage = Storage::new(&settings);
        shared.set_device_id(storage.device_id_text());
        Self {
            settings,
            model,
            line,
            storage,
            // A Model T is unlocked by entering the PIN on the device before it responds at all.
            ram: Ram::new(line == Line::T),
            signing: None,
            pin_matrix: None,
            shared,
            inbox,
            outgoing,
            readers: [DeviceReader::new(line), DeviceReader::new(line)],
            is_plugged,
        }
    }

    /// Handles messages until the simulator is dropped.
    pub(crate) async fn run(mut self) {
        let mut next = None;
        loop {
            let handled = match next.take() {
                Some(message) => self.handle(message).await,
                None => match self.receive(Mode::Normal).await {
                    Ok(DeviceInput::Message(message)) => self.handle(message).await,
                    Ok(DeviceInput::Decided(_)) => Ok(()),
                    Err(stop) => Err(stop),
                },
            };
            match handled {
                Ok(()) | Err(Stop::Silent) => {}
                Err(Stop::Failure(code, text)) => self.fail(code, text).await,
                Err(Stop::Replaced(message)) => next = Some(message),
                Err(Stop::PowerLost) => self.lose_power(),
                Err(Stop::Closed) => return,
            }
        }
    }

    async fn handle(&mut self, message: Message) -> FlowResult<()> {
        self.remember(message.id);
        // While it receives the data of a transaction, Model T accepts no other request.
        if self.line == Line::T && message.id != id::ETHEREUM_TX_ACK {
            self.signing = None;
        }
        match message.id {
            56 => self.get_ethereum_address(&message).await,
            58 => self.sign_transaction(&message).await,
            452 => self.sign_fee_market_transaction(&message).await,
            id::ETHEREUM_TX_ACK => self.go_on_signing(&message).await,
            64 => self.sign_message(&message).await,
            65 => self.verify_message(&message).await,
            450 => self.get_ethereum_public_key(&message).await,
            464 => self.sign_typed_data(&message).await,
            470 => self.sign_typed_hash(&message).await,
            _ => self.manage(&message).await,
        }
    }

    pub(crate) fn remember(&self, id: u16) {
        self.shared.observe(|observed| {
            if observed.received.len() < MAX_RECORDED_MESSAGES {
                observed.received.push(id);
            }
        });
    }

    fn lose_power(&mut self) {
        self.ram = Ram::new(self.line == Line::T);
        self.signing = None;
        self.readers = [DeviceReader::new(self.line), DeviceReader::new(self.line)];
    }

    /// Waits for the next message or button press. Handles unknown messages and the debug link itself.
    pub(crate) async fn receive(&mut self, mode: Mode<'_>) -> FlowResult<DeviceInput> {
        loop {
            let heard = match self.inbox.recv().await.ok_or(Stop::Closed)? {
                Input::PowerLost => return Err(Stop::PowerLost),
                Input::Swapped(done) => {
                    self.storage.device_id = Storage::wiped().device_id;
                    self.shared.set_device_id(self.storage.device_id_text());
                    // The caller may be gone.
                    let _ = done.send(());
                    None
                }
                Input::Decided(is_confirmed) => Some(DeviceInput::Decided(is_confirmed)),
                Input::Packet(..) if !*self.is_plugged.borrow() => None,
                Input::Packet(wire, packet) => self.receive_packet(wire, &packet, mode).await?,
            };
            if let Some(heard) = heard {
                return Ok(heard);
            }
        }
    }

    async fn receive_packet(
        &mut self,
        wire: Wire,
        packet: &[u8; PACKET_LENGTH],
        mode: Mode<'_>,
    ) -> FlowResult<Option<DeviceInput>> {
        let message = match mode {
            Mode::Prompt(_) if self.line == Line::One => match DeviceReader::single(packet) {
                Some(message) if is_tiny(message.id, wire) => message,
                Some(_) => {
                    self.fail(code::UNEXPECTED_MESSAGE, "Unknown message").await;
                    return Ok(None);
                }
                None => return Ok(None),
            },
            mode => {
                let model = self.model;
                let is_known = |id: u16| {
                    let is_wanted = matches!(mode, Mode::Prompt(wanted) if wanted.contains(&id));
                    (wire == Wire::Main && is_wanted) || handles(model, wire, id)
                };
                match self.readers[index(wire)].push(packet, is_known) {
                    Reading::Whole(message) => message,
                    Reading::Nothing => return Ok(None),
                    Reading::Unknown => {
                        let text = if self.line == Line::One { "Unknown message" } else { "Unexpected message" };
                        self.fail(code::UNEXPECTED_MESSAGE, text).await;
                        return Ok(None);
                    }
                    Reading::TooLong => {
                        self.fail(code::DATA_ERROR, "Message too big").await;
                        return Ok(None);
                    }
                }
            }
        };
        if wire == Wire::Debug {
            return self.debug_link(&message).await;
        }
        if matches!(mode, Mode::Prompt(wanted) if wanted.contains(&message.id)) {
            self.remember(message.id);
        }
        match mode {
            Mode::Prompt(wanted) if self.line == Line::T && !wanted.contains(&message.id) => {
                if message.id == id::CANCEL {
                    return Err(Stop::Failure(code::ACTION_CANCELLED, "Cancelled"));
                }
                Err(Stop::Replaced(message))
            }
            Mode::Prompt(_) if message.id == id::INITIALIZE => Err(Stop::Replaced(message)),
            _ => Ok(Some(DeviceInput::Message(message))),
        }
    }

    /// Decodes a request. If that fails, the device reacts as the real model does.
    pub(crate) fn read<M: WireMessage>(&self, message: &Message) -> FlowResult<M> {
        if self.line == Line::One {
            crate::limits::check(message.id, &message.body).map_err(|text| Stop::Failure(code::DATA_ERROR, text))?;
            let text = "end-of-stream";
            return tenon_proto::decode(message.id, &message.body).map_err(|_| Stop::Failure(code::DATA_ERROR, text));
        }
        tenon_proto::decode(message.id, &message.body).map_err(|_| Stop::Silent)
    }

    /// Decodes a response within a flow.
    pub(crate) fn read_answer<M: WireMessage>(&self, message: &Message) -> FlowResult<M> {
        match self.read(message) {
            Err(Stop::Silent) => Err(Stop::Failure(code::FIRMWARE_ERROR, "Firmware error")),
            read => read,
        }
    }

    /// Selects the text for this device's line.
    pub(crate) const fn by_line(&self, one: &'static str, t: &'static str) -> &'static str {
        match self.line {
            Line::One => one,
            Line::T => t,
        }
    }

    pub(crate) async fn succeed(&mut self, one: &'static str, t: &'static str) {
        let message = Some(self.by_line(one, t).into());
        self.send(&Success { message }).await;
    }

    pub(crate) async fn fail(&mut self, code: u32, text: &str) {
        let prefix = if self.settings.has_debug_texts { "firmware/simulated.c:1:" } else { "" };
        let message = Some(format!("{prefix}{text}").into_bytes());
        self.send(&Failure { code: Some(code as i32), message }).await;
    }

    pub(crate) async fn send<M: WireMessage>(&mut self, message: &M) {
        let (id, body) = tenon_proto::encode(message);
        self.send_on(Wire::Main, id, &body).await;
    }

    pub(crate) async fn send_debug<M: WireMessage>(&mut self, message: &M) {
        let (id, body) = tenon_proto::encode(message);
        self.send_packets(Wire::Debug, id, &body, usize::MAX, |_| {}).await;
    }

    /// Sends a message, with the planned fault if it is due.
    async fn send_on(&mut self, wire: Wire, id: u16, body: &[u8]) {
        let all = usize::MAX;
        match self.shared.take_fault() {
            None | Some(Fault::WrongSignature | Fault::HighSignature | Fault::TooMuchData | Fault::NoData) => {
                self.send_packets(wire, id, body, all, |_| {}).await;
            }
            Some(Fault::BadMagic) => self.send_packets(wire, id, body, all, |first| first[1] = b'!').await,
            Some(Fault::Truncated) => {
                let whole = [body, &[0; PACKET_LENGTH]].concat();
                self.send_packets(wire, id, &whole, 1, |_| {}).await;
            }
            Some(Fault::OverlongLength) => {
                self.send_packets(wire, id, body, all, |first| first[5..9].copy_from_slice(&[0, 16, 0, 0])).await;
            }
            Some(Fault::Twice) => {
                self.send_packets(wire, id, body, all, |_| {}).await;
                self.send_packets(wire, id, body, all, |_| {}).await;
            }
            Some(Fault::Silence) => {}
            Some(Fault::WrongId) => self.send_packets(wire, 30, body, all, |_| {}).await,
            Some(Fault::BadBody) => self.send_packets(wire, id, b"\x0a\x7fcut", all, |_| {}).await,
            Some(Fault::ExtraButtons) => {
                self.send_buttons(10).await;
                self.send_packets(wire, id, body, all, |_| {}).await;
            }
            Some(Fault::EndlessButtons) => self.send_buttons(ENDLESS).await,
            Some(Fault::RandomPacket) => {
                let mut packet = [0; PACKET_LENGTH];
                rand::rng().fill_bytes(&mut packet);
                self.put(wire, packet).await;
                self.send_packets(wire, id, body, all, |_| {}).await;
            }
            Some(Fault::Disconnect) => drop(self.is_plugged.send_replace(false)),
        }
    }

    /// Sends button requests that need no press, waiting for each acknowledgement, until a `Cancel` arrives.
    async fn send_buttons(&mut self, count: usize) {
        let (id, body) = tenon_proto::encode(&ButtonRequest { code: Some(1) });
        for _ in 0..count {
            self.send_packets(Wire::Main, id, &body, usize::MAX, |_| {}).await;
            match self.inbox.recv().await {
                Some(Input::Packet(_, packet)) if packet[4] == id::BUTTON_ACK as u8 => {}
                Some(Input::Packet(..)) => {
                    let text = self.by_line("Action cancelled by user", "Cancelled");
                    let failure =
                        Failure { code: Some(code::ACTION_CANCELLED as i32), message: Some(text.as_bytes().to_vec()) };
                    let (id, body) = tenon_proto::encode(&failure);
                    return self.send_packets(Wire::Main, id, &body, usize::MAX, |_| {}).await;
                }
                _ => return,
            }
        }
    }

    async fn send_packets(
        &mut self,
        wire: Wire,
        id: u16,
        body: &[u8],
        max: usize,
        change_first: impl FnOnce(&mut [u8; PACKET_LENGTH]),
    ) {
        // Never happens: the length of every response fits into four bytes.
        let Ok(packets) = Packets::new(id, body) else { return };
        let mut change_first = Some(change_first);
        for packet in packets.take(max) {
            let mut packet = *packet.as_bytes();
            if let Some(change) = change_first.take() {
                change(&mut packet);
            }
            self.put(wire, packet).await;
        }
    }

    async fn put(&self, wire: Wire, packet: [u8; PACKET_LENGTH]) {
        if *self.is_plugged.borrow() {
            // Fails only while the simulator is being dropped.
            let _ = self.outgoing[index(wire)].send(packet).await;
        }
    }

    /// The decision of the simulated person, if it does not have to be awaited.
    pub(crate) const fn standing_decision(&self) -> Option<bool> {
        match self.settings.approval {
            Approval::Always => Some(true),
            Approval::Never => Some(false),
            Approval::Asked => None,
        }
    }
}

/// Whether Model One accepts a message while a prompt is open.
fn is_tiny(id: u16, wire: Wire) -> bool {
    let direction = if wire == Wire::Main { Flag::WireIn } else { Flag::WireDebugIn };
    registry::by_id(id).is_some_and(|entry| entry.has(Flag::WireTiny) && entry.has(direction))
        && id != id::PASSPHRASE_STATE_ACK
}

/// Whether a model handles a request between prompts.
fn handles(model: Model, wire: Wire, id: u16) -> bool {
    if wire == Wire::Debug {
        let is_decision = model.line() == Line::T && id == id::DEBUG_LINK_DECISION;
        return DEBUG_REQUESTS.contains(&id) || is_decision;
    }
    let has_recent_firmware = match id {
        452 => model.has_recent_firmware(),
        464 => model == Model::TLater,
        470 => model == Model::OneLater,
        _ => false,
    };
    let is_stray = model.line() == Line::One && ONE_STRAY.contains(&id);
    REQUESTS.contains(&id) || has_recent_firmware || is_stray
}
