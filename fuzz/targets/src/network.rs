//! Data from other nodes: packets of the handshake, compressed payloads, messages, datagrams, records.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tenon_network_discovery::{
    Action, Clock, Content, Discovery, DiscoverySettings, MAX_PACKET_BYTES, Packet, PacketEndpoint, PacketTypes,
    TableSettings, read_nodes, write_nodes,
};
use tenon_network_identity::{Enode, MAX_RECORD_BYTES, NodeKey, NodeRecord, parse_key, recover};
use tenon_network_rlpx::parts::{compress, decode_ack_content, decode_auth_content, decompress, read_disconnect};
use tenon_network_rlpx::{HandshakeRandom, Hello, OfferedProtocol, Output, Session, SessionSettings};
use tenon_network_wire::{Message, VERSIONS, has_own_body};

/// Fixed keys, so that every run is the same.
fn key(number: u8) -> NodeKey {
    parse_key(&format!("{number:064x}")).expect("a key")
}

fn random(number: u8) -> HandshakeRandom {
    HandshakeRandom {
        ephemeral: key(number),
        nonce: [number; 32],
        packet_key: key(number + 1),
        packet_iv: [number; 16],
        padding: 100,
    }
}

fn settings() -> SessionSettings {
    SessionSettings::new("fuzz", vec![OfferedProtocol::new("eth", 100, 227)])
}

/// The first bytes of a connection, to the accepting and to the dialing side. Bytes that cannot be decrypted are not
/// answered, and an ended session keeps nothing.
pub(crate) fn handshake(input: &[u8]) {
    let now = Duration::ZERO;
    let ours = Arc::new(key(11));
    let accepted = Session::accept(settings(), &ours, random(20), now);
    let dialed = Session::dial(settings(), &ours, key(12).id(), random(30), now).expect("a good key");
    for mut session in [accepted, dialed] {
        while session.next_output(now).is_some() {}
        session.receive(input);
        let mut is_closed = false;
        while let Some(output) = session.next_output(now) {
            assert!(!is_closed, "nothing follows the end");
            match output {
                Output::Authenticated { .. } => session.admit(now),
                Output::Greeted { .. } | Output::Message { .. } => panic!("no key is known that could have made this"),
                Output::Closed(_) => is_closed = true,
                Output::Write(_) => {}
            }
        }
        assert_eq!(is_closed, session.is_closed());
        assert!(session.unread_bytes() <= input.len() && (!is_closed || session.unread_bytes() == 0));
    }
    let _ = decode_auth_content(input);
    let _ = decode_ack_content(input);
}

/// A payload behind the encryption: compressed data, Hello, Disconnect.
pub(crate) fn payloads(input: &[u8]) {
    const LIMIT: usize = 1 << 16;
    if let Ok(payload) = decompress(input, LIMIT) {
        assert!(payload.len() <= LIMIT);
        let again = compress(&payload).expect("a short payload");
        assert_eq!(decompress(&again, LIMIT), Ok(payload));
    }
    if let Ok(hello) = Hello::decode(input) {
        // A client name that is not text, or too long, is replaced.
        let again = Hello::decode(&hello.encode());
        assert!(again.is_err() || again == Ok(hello));
    }
    let _ = read_disconnect(input);
}

/// A version, a code and a payload. A decoded message encodes to the same bytes, apart from bytes after it.
pub(crate) fn messages(input: &[u8]) {
    let [index, code, payload @ ..] = input else { return };
    let version = &VERSIONS[usize::from(*index) % VERSIONS.len()];
    let has_own = has_own_body(payload);
    let Ok(message) = Message::decode(version, u64::from(*code), payload) else { return };
    if let Message::NewBlock(new) = &message {
        let (block, header) = (&new.block, &new.block.header);
        let is_own = tenon_chain::transactions_root(&block.transactions) == header.transactions_root
            && tenon_chain::ommers_hash(&block.ommers) == header.ommers_hash;
        assert_eq!(has_own, Ok(is_own), "{message:?}");
    }
    let Some((kind, encoded)) = message.encode() else { return };
    assert_eq!(version.code(kind), Some(u64::from(*code)));
    let again = Message::decode(version, u64::from(*code), &encoded);
    assert_eq!(again.as_ref(), Ok(&message));
    let is_cut = matches!(
        message,
        Message::GetBlockBodies(_)
            | Message::GetNodeData(_)
            | Message::GetReceipts(_)
            | Message::GetPooledTransactions(_)
            | Message::Status(_)
    );
    assert!(is_cut || payload.starts_with(&encoded), "{message:?}");
}

/// Type and content of a datagram, which is signed here. An unproven endpoint gets only a Pong and a Ping.
pub(crate) fn datagrams(input: &[u8]) {
    let sender = key(13);
    let Some(datagram) = signed(&sender, input) else { return };
    let settings = DiscoverySettings {
        types: PacketTypes::NATIVE,
        table: TableSettings::default(),
        own: PacketEndpoint { ip: None, udp: 30303, tcp: 30303 },
        bootnodes: Vec::new(),
        restrict: None,
        seed: 1,
    };
    let clock = Clock { now: Duration::from_secs(1), unix: 0 };
    let mut node = Discovery::new(settings, Arc::new(key(14)), None, Vec::new(), clock.now);
    if node.receive(SocketAddr::from(([23, 1, 2, 3], 30303)), &datagram, clock).is_err() {
        return;
    }
    let mut sent = 0;
    while let Some(action) = node.next_action() {
        let Action::Send { datagram, .. } = action else { panic!("{action:?}") };
        let packet = Packet::decode(&PacketTypes::NATIVE, &datagram).expect("what is sent can be read");
        assert!(matches!(packet.content, Content::Pong { .. } | Content::Ping { .. }));
        sent += 1;
    }
    assert!(sent <= 2 && node.table().is_empty());
}

fn signed(key: &NodeKey, content: &[u8]) -> Option<Vec<u8>> {
    if content.is_empty() || content.len() > MAX_PACKET_BYTES {
        return None;
    }
    let signature = key.sign(alloy_primitives::keccak256(content)).expect("a good key");
    assert_eq!(recover(alloy_primitives::keccak256(content), &signature), Ok(key.id()));
    let rest = [&signature[..], content].concat();
    Some([alloy_primitives::keccak256(&rest).as_slice(), &rest].concat())
}

/// Records of nodes as bytes and text, the file of nodes, and URLs.
pub(crate) fn records(input: &[u8]) {
    if let Ok(record) = NodeRecord::decode(input) {
        assert!(input.len() <= MAX_RECORD_BYTES);
        assert_eq!(record.encoded(), input);
        assert_eq!(record.to_string().parse(), Ok(record));
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    let _ = text.parse::<NodeRecord>();
    let nodes = read_nodes(text, 1_000_000);
    assert_eq!(read_nodes(&write_nodes(&nodes), 1_000_000), nodes);
    if let Ok(enode) = text.parse::<Enode>() {
        assert_eq!(enode.to_string().parse(), Ok(enode));
    }
}

fn bytes(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().expect("a text")).expect("hexadecimal digits")
}

fn sessions(file: &Value) -> impl Iterator<Item = &Value> {
    file["sessions"].as_array().expect("sessions").iter()
}

/// Packets of recorded handshakes.
pub(crate) fn packets(file: &Value) -> Vec<Vec<u8>> {
    let of =
        |session: &Value| ["auth", "ack", "auth_plain", "ack_plain"].map(|name| bytes(&session["handshake"][name]));
    sessions(file).flat_map(of).collect()
}

/// Recorded payloads in wire format.
pub(crate) fn compressed(file: &Value) -> Vec<Vec<u8>> {
    let frames = sessions(file).flat_map(|session| session["frames"].as_array().expect("frames"));
    frames.map(|frame| bytes(if frame["snappy"].is_string() { &frame["snappy"] } else { &frame["payload"] })).collect()
}

/// Recorded messages of version 100.
pub(crate) fn recorded_messages(file: &Value) -> Vec<Vec<u8>> {
    let frames = sessions(file).flat_map(|session| session["frames"].as_array().expect("frames"));
    let message = |frame: &Value| {
        let code = u8::try_from(frame["code"].as_u64()?.checked_sub(16)?).ok()?;
        Some([&[2, code], &bytes(&frame["payload"])[..]].concat())
    };
    frames.filter_map(message).collect()
}

/// Types and contents of recorded datagrams.
pub(crate) fn contents(file: &Value) -> Vec<Vec<u8>> {
    let packets = file["packets"].as_array().expect("packets").iter();
    packets.map(|packet| bytes(&packet["packet"])[97..].to_vec()).collect()
}

/// A record as bytes and text, a line of the file of nodes, and a URL.
pub(crate) fn record_examples() -> Vec<Vec<u8>> {
    let key = key(15);
    let record =
        tenon_network_identity::RecordBuilder::new(3).with("udp", &30303_u16).sign(&key).expect("a short record");
    let url = format!("enode://{}@10.3.58.6:30303?discport=30301", key.id());
    let text = record.to_string();
    vec![record.encoded().to_vec(), text.into_bytes(), format!("1000000 {url}\n").into_bytes(), url.into_bytes()]
}
