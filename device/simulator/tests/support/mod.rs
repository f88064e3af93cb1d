//! A minimal host, which sends messages and reads the responses.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]
#![allow(dead_code, reason = "each test uses a part of it")]

use std::time::Duration;

use tenon_device_framing::{Message, Packets, Reader, Wire};
use tenon_device_simulator::{MemoryLink, Model, Simulator, SimulatorSettings};
use tenon_device_transport::Link as _;
use tenon_proto::common::{ButtonAck, ButtonRequest, Failure};
use tenon_proto::{WireMessage, decode, encode};

pub(crate) const ALL: &str = "all all all all all all all all all all all all";

pub(crate) const EARLY_MODELS: [Model; 2] = [Model::One, Model::T];

/// `m/44'/60'/0'/0/index`.
pub(crate) fn account(index: u32) -> Vec<u32> {
    const HARDENED: u32 = 0x8000_0000;
    vec![44 | HARDENED, 60 | HARDENED, HARDENED, 0, index]
}

pub(crate) fn settings(model: Model) -> SimulatorSettings {
    SimulatorSettings { time_scale: 0.0, ..SimulatorSettings::new(model, ALL) }
}

pub(crate) struct Host {
    pub(crate) simulator: Simulator,
    link: MemoryLink,
    reader: Reader,
}

impl Host {
    pub(crate) fn new(settings: SimulatorSettings) -> Self {
        let simulator = Simulator::start(settings);
        let link = simulator.link(Wire::Main);
        Self { simulator, link, reader: Reader::new(Wire::Main) }
    }

    pub(crate) async fn send<M: WireMessage>(&mut self, message: &M) {
        let (id, body) = encode(message);
        self.send_raw(id, &body).await;
    }

    pub(crate) async fn send_raw(&mut self, id: u16, body: &[u8]) {
        for packet in Packets::new(id, body).unwrap() {
            self.link.send(&packet).await.unwrap();
        }
    }

    pub(crate) async fn send_packet(&mut self, packet: [u8; 64]) {
        self.link.send_bytes(packet).await.unwrap();
    }

    /// Receives the next message, undecoded.
    pub(crate) async fn receive(&mut self) -> Message {
        self.try_receive().await.expect("no answer")
    }

    /// Receives the next message, or `None` after two seconds.
    pub(crate) async fn try_receive(&mut self) -> Option<Message> {
        loop {
            let packet = tokio::time::timeout(Duration::from_millis(2000), self.link.receive()).await.ok()?.unwrap();
            if let Some(message) = self.reader.push(packet.as_bytes()).unwrap() {
                return Some(message);
            }
        }
    }

    /// Receives the next message, or `None` if none arrives within 3 ms.
    pub(crate) async fn poll(&mut self) -> Option<Message> {
        loop {
            let packet = tokio::time::timeout(Duration::from_millis(3), self.link.receive()).await.ok()?.unwrap();
            if let Some(message) = self.reader.push(packet.as_bytes()).unwrap() {
                return Some(message);
            }
        }
    }

    /// Reads and drops all pending messages.
    pub(crate) async fn drain(&mut self) {
        while self.poll().await.is_some() {}
    }

    pub(crate) async fn expect_silence(&mut self) {
        let packet = tokio::time::timeout(Duration::from_millis(60), self.link.receive()).await;
        assert!(packet.is_err(), "{packet:?}");
    }

    pub(crate) async fn expect<M: WireMessage>(&mut self) -> M {
        let message = self.receive().await;
        decode(message.id, &message.body).unwrap_or_else(|error| panic!("{error}: {:?}", message.body))
    }

    pub(crate) async fn expect_failure(&mut self, code: i32, text: &str) {
        let failure: Failure = self.expect().await;
        assert_eq!((failure.code, String::from_utf8_lossy(failure.message()).as_ref()), (Some(code), text));
    }

    /// Sends a message; returns the next message, which may be a button request.
    pub(crate) async fn ask<Q: WireMessage, A: WireMessage>(&mut self, message: &Q) -> A {
        self.send(message).await;
        self.expect().await
    }

    /// Sends a message that the device answers with this failure.
    pub(crate) async fn expect_refusal<Q: WireMessage>(&mut self, message: &Q, code: i32, text: &str) {
        self.send(message).await;
        self.expect_failure(code, text).await;
    }

    /// Sends a request and acknowledges buttons; returns the response and the codes of the buttons.
    pub(crate) async fn call_with_buttons<Q: WireMessage, A: WireMessage>(&mut self, request: &Q) -> (A, Vec<i32>) {
        self.send(request).await;
        let (message, buttons) = self.after_buttons().await;
        (decode(message.id, &message.body).unwrap_or_else(|error| panic!("{error}: {:?}", message.body)), buttons)
    }

    pub(crate) async fn call<Q: WireMessage, A: WireMessage>(&mut self, request: &Q) -> A {
        self.call_with_buttons(request).await.0
    }

    pub(crate) async fn after_buttons(&mut self) -> (Message, Vec<i32>) {
        let mut buttons = Vec::new();
        loop {
            let message = self.receive().await;
            if message.id != ButtonRequest::ID {
                return (message, buttons);
            }
            buttons.push(decode::<ButtonRequest>(message.id, &message.body).unwrap().code.unwrap());
            self.send(&ButtonAck {}).await;
        }
    }
}
