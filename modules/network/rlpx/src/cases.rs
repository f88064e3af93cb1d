//! The recorded probes of the reference client (`tests/data/p2p/cases.json.gz`): this node reacts in the same way, or
//! more leniently. A probe is a raw peer that sends the recorded messages; this node is the session state machine with
//! the one of `tenon-network-wire` on top.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{U256, hex};
use serde::Deserialize;
use tenon_network_identity::NodeKey;
use tenon_network_wire::{AcceptedMessages, EthSession, Message, Received, Status, version};

use crate::base::{Hello, read_disconnect};
use crate::compression::{compress, decompress};
use crate::frame::{FrameCodec, MAX_CONTENT_BYTES};
use crate::handshake::{Format, Initiator};
use crate::{DisconnectReason, HandshakeRandom, OfferedProtocol, Output, Session, SessionSettings};

#[derive(Deserialize)]
struct File {
    genesis: String,
    network: u64,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    group: String,
    name: String,
    send: Vec<Sent>,
    receive: Vec<Answer>,
    closed: bool,
}

#[derive(Deserialize)]
struct Sent {
    code: u64,
    payload: Option<String>,
    frame_payload: Option<String>,
}

#[derive(Deserialize)]
struct Answer {
    code: u64,
    payload: String,
}

/// This node: both state machines, and the messages that it would handle.
struct Node {
    session: Session,
    eth: Option<EthSession>,
    status: Status,
    /// Messages that the node would handle.
    messages: Vec<Message>,
    is_closed: bool,
    now: Duration,
}

impl Node {
    fn new(status: Status) -> (Self, Arc<NodeKey>) {
        let key = Arc::new(NodeKey::random().unwrap());
        let offers =
            [(100, 227), (63, 17), (62, 8)].map(|(version, length)| OfferedProtocol::new("eth", version, length));
        let settings = SessionSettings::new("node", offers.to_vec());
        let session = Session::accept(settings, &key, HandshakeRandom::generate().unwrap(), Duration::ZERO);
        let node = Self { session, eth: None, status, messages: Vec::new(), is_closed: false, now: Duration::ZERO };
        (node, key)
    }

    /// Receives bytes, processes everything that follows from them, and returns the bytes to write.
    fn receive(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.session.receive(bytes);
        self.drain()
    }

    fn drain(&mut self) -> Vec<u8> {
        let mut written = Vec::new();
        while let Some(output) = self.session.next_output(self.now) {
            match output {
                Output::Write(bytes) => written.extend_from_slice(&bytes),
                Output::Authenticated { .. } => self.session.admit(self.now),
                Output::Greeted { agreed, .. } => {
                    self.session.admit(self.now);
                    let number = u32::try_from(agreed[0].capability.version).unwrap();
                    let eth = EthSession::new(version(number).unwrap(), self.status.clone(), self.now);
                    self.session.send(0, 0, &eth.status_payload()).unwrap();
                    self.eth = Some(eth);
                }
                Output::Message { code, payload, .. } => self.take(code, &payload),
                Output::Closed(_) => self.is_closed = true,
            }
        }
        written
    }

    fn take(&mut self, code: u64, payload: &[u8]) {
        // The same state as the recorded node's: at its head, but not synchronised since its start.
        let acceptance = AcceptedMessages { accepts_transactions: false, ..AcceptedMessages::ALL };
        match self.eth.as_mut().unwrap().receive(code, payload, acceptance) {
            Ok(Received::Message(message)) => self.messages.push(message),
            Ok(_) => {}
            Err(fault) => self.session.refuse(DisconnectReason(fault.disconnect_reason())),
        }
    }

    fn wait(&mut self, seconds: u64) -> Vec<u8> {
        let mut written = Vec::new();
        for _ in 0..seconds {
            self.now += Duration::from_secs(1);
            self.session.tick(self.now);
            if let Some(eth) = &self.eth
                && let Err(fault) = eth.tick(self.now)
            {
                self.session.refuse(DisconnectReason(fault.disconnect_reason()));
            }
            written.extend(self.drain());
        }
        written
    }
}

/// The raw peer.
struct Probe {
    key: NodeKey,
    frames: FrameCodec,
    is_compressed: bool,
    unread: Vec<u8>,
}

impl Probe {
    fn connect(node: &mut Node, remote: &NodeKey) -> Self {
        let key = NodeKey::random().unwrap();
        let random = HandshakeRandom::generate().unwrap();
        let mut initiator = Initiator::new(&key, &remote.id(), random, Format::Sized).unwrap();
        let mut unread = node.receive(initiator.packet());
        let opened = initiator.reader.open(&key, &unread).unwrap().unwrap();
        let rest = unread.split_off(opened.size);
        let frames = FrameCodec::new(initiator.finish(&opened, &unread).unwrap(), true);
        Self { key, frames, is_compressed: false, unread: rest }
    }

    fn frame(&mut self, code: u64, payload: &[u8]) -> Vec<u8> {
        let payload = if self.is_compressed { compress(payload).unwrap() } else { payload.to_vec() };
        self.frames.encode(code, &payload).unwrap()
    }

    /// Decodes the node's messages.
    fn read(&mut self, bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
        self.unread.extend_from_slice(bytes);
        let mut messages = Vec::new();
        while self.unread.len() >= self.frames.needed() {
            let rest = self.unread.split_off(self.frames.needed());
            let mut part = std::mem::replace(&mut self.unread, rest);
            let Some(content) = self.frames.decode(&mut part, MAX_CONTENT_BYTES).unwrap() else { continue };
            let (code, payload) = (if content[0] == 0x80 { 0 } else { u64::from(content[0]) }, &content[1..]);
            let is_plain = !self.is_compressed || payload.first().is_some_and(|first| *first >= 0xc0);
            let payload = if is_plain { payload.to_vec() } else { decompress(payload, MAX_CONTENT_BYTES).unwrap() };
            messages.push((code, payload));
        }
        messages
    }

    /// The recorded Hello, with this probe's identifier in place of the recorded one.
    fn with_own_id(&self, payload: &[u8], name: &str) -> Vec<u8> {
        let mut payload = payload.to_vec();
        if ["zero node ID", "another node ID", "node ID of 63 bytes"].contains(&name) {
            return payload;
        }
        if let Ok(hello) = Hello::decode(&payload) {
            let start = payload.windows(64).position(|window| window == hello.id.0).unwrap();
            payload[start..start + 64].copy_from_slice(&self.key.id().0);
        }
        payload
    }
}

fn file() -> File {
    tenon_test_data::json("p2p/cases.json.gz")
}

fn run(case: &Case, status: &Status) {
    let name = format!("{}: {}", case.group, case.name);
    let (mut node, key) = Node::new(status.clone());
    let mut probe = Probe::connect(&mut node, &key);
    if case.group != "hello" {
        let hello = Hello {
            version: 5,
            name: "probe".to_owned(),
            capabilities: vec![OfferedProtocol::new("eth", 100, 227).capability],
            listen_port: 0,
            id: probe.key.id(),
        };
        let frame = probe.frame(0, &hello.encode());
        let answer = node.receive(&frame);
        probe.is_compressed = true;
        probe.read(&answer);
    }
    if case.group == "message" {
        let mut ours = status.clone();
        ours.version = 100;
        let frame = probe.frame(16, &ours.encode());
        let answer = node.receive(&frame);
        probe.read(&answer);
        assert!(node.eth.as_ref().unwrap().is_established());
    }

    let mut answers = Vec::new();
    for sent in &case.send {
        let frame = match (&sent.payload, &sent.frame_payload) {
            (Some(payload), _) => {
                let mut payload = hex::decode(payload).unwrap();
                if sent.code == 0 {
                    payload = probe.with_own_id(&payload, &case.name);
                }
                probe.frame(sent.code, &payload)
            }
            (None, Some(raw)) => probe.frames.encode(sent.code, &hex::decode(raw).unwrap()).unwrap(),
            (None, None) => panic!("{name}: nothing to send"),
        };
        let answer = node.receive(&frame);
        probe.is_compressed |= case.group == "hello" && sent.code == 0 && !case.name.starts_with("version ");
        answers.extend(probe.read(&answer));
    }
    if case.name == "nothing" {
        let answer = node.wait(6);
        answers.extend(probe.read(&answer));
    }

    assert_eq!(node.is_closed, case.closed, "{name}");
    let reason = |code: u64, payload: &[u8]| (code == 1).then(|| read_disconnect(payload).0);
    let wanted = case
        .receive
        .iter()
        .find_map(|answer| (answer.code == 1).then(|| reason(1, &hex::decode(&answer.payload).unwrap())).flatten());
    let found = answers.iter().find_map(|(code, payload)| reason(*code, payload));
    // The reference sends reason 0 for every drop of a running peer; this node sends the real reason (25, rule 10).
    let is_dropped = case.group == "message" && case.send[0].code != 1 && wanted == Some(0);
    assert_eq!(found, if is_dropped { Some(0x10) } else { wanted }, "{name}");
    // If the reference answered a request, this node would answer it too.
    if let Some(answer) = case.receive.iter().find(|answer| answer.code > 16 && !answer.payload.is_empty()) {
        let is_question = |message: &Message| {
            matches!(
                message,
                Message::GetBlockHeaders(_)
                    | Message::GetBlockBodies(_)
                    | Message::GetNodeData(_)
                    | Message::GetReceipts(_)
            )
        };
        assert!(node.messages.iter().any(is_question), "{name}: answered with {}", answer.code);
    }
    if case.receive.iter().any(|answer| answer.code == 3) {
        assert!(answers.contains(&(3, vec![0xc0])), "{name}");
    }
}

#[test]
fn all_93_probes_get_the_same_reaction_or_a_more_lenient_one() {
    let file = file();
    let genesis = file.genesis.parse().unwrap();
    let status = Status {
        version: 0,
        network: file.network,
        total_difficulty: U256::from(674),
        head: genesis,
        genesis,
        fork_id: None,
    };
    assert_eq!(file.cases.len(), 93);
    for case in &file.cases {
        run(case, &status);
    }
}
