//! The recorded sessions of the reference client, encoded and decoded byte for byte (`tests/data/p2p`).

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::hex;
use serde::Deserialize;
use tenon_network_identity::{NodeId, NodeKey, parse_key};
use tenon_test_data::json;

use crate::compression::{compress, decompress};
use crate::frame::{FrameCodec, MAX_CONTENT_BYTES};
use crate::handshake::{Format, Initiator, PacketReader};
use crate::secrets::{Agreement, Secrets};
use crate::{DisconnectReason, HandshakeRandom, Hello, OfferedProtocol, Output, Session, SessionSettings};

#[derive(Deserialize)]
struct File {
    sessions: Vec<Recorded>,
}

#[derive(Deserialize)]
struct Recorded {
    note: String,
    reference_static_key: String,
    reference_static_pub: String,
    handshake: Handshake,
    frames: Vec<Frame>,
}

#[derive(Deserialize)]
struct Handshake {
    role: String,
    our_static: String,
    our_ephemeral: String,
    our_nonce: String,
    our_ecies_ephemeral: String,
    our_ecies_iv: String,
    our_padding_zeros: usize,
    auth: String,
    auth_plain: String,
    ack: String,
    their_nonce: String,
    ecdhe: String,
    aes: String,
    initiator_egress_digest: String,
    responder_egress_digest: String,
}

#[derive(Deserialize)]
struct Frame {
    dir: String,
    code: u64,
    name: String,
    payload: String,
    snappy: Option<String>,
    frame: String,
}

impl Frame {
    fn is_ours(&self) -> bool {
        self.dir == "us->ref"
    }
}

fn bytes(text: &str) -> Vec<u8> {
    hex::decode(text).unwrap()
}

fn array<const N: usize>(text: &str) -> [u8; N] {
    bytes(text).try_into().unwrap()
}

fn id(text: &str) -> NodeId {
    text.parse().unwrap()
}

fn sessions() -> Vec<Recorded> {
    let files = ["dialed-local", "dialed-staged", "dialing", "transactions", "consensus"];
    files.iter().flat_map(|file| json::<File>(format!("p2p/{file}.json.gz")).sessions).collect()
}

impl Handshake {
    fn random(&self) -> HandshakeRandom {
        HandshakeRandom {
            ephemeral: parse_key(&self.our_ephemeral).unwrap(),
            nonce: array(&self.our_nonce),
            packet_key: parse_key(&self.our_ecies_ephemeral).unwrap(),
            packet_iv: array(&self.our_ecies_iv),
            padding: self.our_padding_zeros,
        }
    }

    fn key(&self) -> Arc<NodeKey> {
        Arc::new(parse_key(&self.our_static).unwrap())
    }

    fn is_initiator(&self) -> bool {
        self.role == "initiator"
    }

    /// The initiator's packet, as the test peer made it.
    fn initiator(&self, remote: NodeId) -> Initiator {
        let format = if self.our_padding_zeros == 0 { Format::Plain } else { Format::Sized };
        let plain = bytes(&self.auth_plain);
        let (version, more) = if format == Format::Plain { (4, Vec::new()) } else { version_and_more(&plain) };
        Initiator::with_content(&self.key(), &remote, self.random(), format, version, &more).unwrap()
    }

    /// The secrets derived from the shared point, which allow both directions to be encoded.
    fn secrets(&self) -> Secrets {
        let (ours, theirs) = (array(&self.our_nonce), array(&self.their_nonce));
        let (initiator_nonce, responder_nonce) = if self.is_initiator() { (ours, theirs) } else { (theirs, ours) };
        Secrets::derive(&Agreement {
            ecdhe: &array(&self.ecdhe),
            initiator_nonce: &initiator_nonce,
            responder_nonce: &responder_nonce,
            auth: &bytes(&self.auth),
            ack: &bytes(&self.ack),
        })
    }
}

/// Version and further elements of an auth's content.
fn version_and_more(content: &[u8]) -> (u64, Vec<u8>) {
    use alloy_rlp::{Decodable, Header};
    let mut list = Header::decode_bytes(&mut &*content, true).unwrap();
    for _ in 0..3 {
        Header::decode_bytes(&mut list, false).unwrap();
    }
    (u64::decode(&mut list).unwrap(), list.to_vec())
}

fn settings() -> SessionSettings {
    let offers = [(100, 227), (63, 17), (62, 8)].map(|(version, length)| OfferedProtocol::new("eth", version, length));
    SessionSettings::new("recorded", offers.to_vec())
}

#[test]
fn there_are_21_sessions_and_214_frames() {
    let sessions = sessions();

    assert_eq!(sessions.len(), 21);
    assert_eq!(sessions.iter().map(|session| session.frames.len()).sum::<usize>(), 214);
}

#[test]
fn packets_of_the_handshake_round_trip() {
    for session in sessions() {
        let handshake = &session.handshake;
        let (remote, auth, ack) = (id(&session.reference_static_pub), bytes(&handshake.auth), bytes(&handshake.ack));
        let reference = parse_key(&session.reference_static_key).unwrap();
        assert_eq!(reference.id(), remote);

        if handshake.is_initiator() {
            assert_eq!(handshake.initiator(remote).packet(), auth, "{}", session.note);
            let opened = PacketReader::auth().open(&reference, &auth).unwrap().unwrap();
            assert_eq!(*opened.content, bytes(&handshake.auth_plain), "{}", session.note);
            assert_eq!(opened.size, auth.len());
        } else {
            let mut accepted = Session::accept(settings(), &handshake.key(), handshake.random(), Duration::ZERO);
            accepted.receive(&auth);
            assert_eq!(accepted.next_output(Duration::ZERO), Some(Output::Write(ack)), "{}", session.note);
            assert_eq!(accepted.next_output(Duration::ZERO), Some(Output::Authenticated { id: remote }));
        }
    }
}

#[test]
fn secrets_and_macs_are_those_of_the_recording() {
    for session in sessions() {
        let handshake = &session.handshake;
        let secrets = handshake.secrets();

        assert_eq!(hex::encode(*secrets.aes), handshake.aes, "{}", session.note);
        assert_eq!(hex::encode(secrets.initiator_mac.digest()), handshake.initiator_egress_digest);
        assert_eq!(hex::encode(secrets.responder_mac.digest()), handshake.responder_egress_digest);
        let (out, into) = FrameCodec::new(secrets, handshake.is_initiator()).mac_digests();
        let wanted = (handshake.initiator_egress_digest.as_str(), handshake.responder_egress_digest.as_str());
        let (first, second) = if handshake.is_initiator() { (out, into) } else { (into, out) };
        assert_eq!((hex::encode(first).as_str(), hex::encode(second).as_str()), wanted);
    }
}

#[test]
fn every_frame_of_both_directions_round_trips() {
    for session in sessions() {
        let is_initiator = session.handshake.is_initiator();
        let mut ours = FrameCodec::new(session.handshake.secrets(), is_initiator);
        let mut theirs = FrameCodec::new(session.handshake.secrets(), !is_initiator);
        for frame in &session.frames {
            let (sender, receiver) = if frame.is_ours() { (&mut ours, &mut theirs) } else { (&mut theirs, &mut ours) };
            let payload = bytes(&frame.payload);
            let on_wire = frame.snappy.as_deref().map_or_else(|| payload.clone(), bytes);
            if frame.snappy.is_some() {
                assert_eq!(compress(&payload).unwrap(), on_wire, "{}: {}", session.note, frame.name);
                assert_eq!(decompress(&on_wire, MAX_CONTENT_BYTES).unwrap(), payload);
            }

            let encoded = sender.encode(frame.code, &on_wire).unwrap();

            assert_eq!(encoded, bytes(&frame.frame), "{}: {}", session.note, frame.name);
            let mut rest = encoded;
            let mut body = rest.split_off(receiver.needed());
            assert_eq!(receiver.decode(&mut rest, MAX_CONTENT_BYTES).unwrap(), None);
            assert_eq!(body.len(), receiver.needed());
            let content = receiver.decode(&mut body, MAX_CONTENT_BYTES).unwrap().unwrap();
            let mut wanted = alloy_rlp::encode(frame.code);
            wanted.extend_from_slice(&on_wire);
            assert_eq!(content, wanted);
        }
    }
}

/// Replays a session through the state machine in place of the test peer: it receives what the reference sent, in
/// pieces of `piece` bytes, and its outputs must equal the recording.
fn replay(session: &Recorded, piece: usize) {
    let now = Duration::ZERO;
    let handshake = &session.handshake;
    let remote = id(&session.reference_static_pub);
    let (mut machine, packet) = if handshake.is_initiator() {
        let machine = Session::dial_with(settings(), &handshake.key(), remote, handshake.initiator(remote), now);
        (machine, bytes(&handshake.ack))
    } else {
        (Session::accept(settings(), &handshake.key(), handshake.random(), now), bytes(&handshake.auth))
    };
    let mut input = packet;
    let theirs: Vec<&Frame> = session.frames.iter().filter(|frame| !frame.is_ours()).collect();
    theirs.iter().for_each(|frame| input.extend_from_slice(&bytes(&frame.frame)));

    let mut told = Vec::new();
    for piece in input.chunks(piece) {
        machine.receive(piece);
        while let Some(output) = machine.next_output(now) {
            match output {
                Output::Write(_) => {}
                Output::Authenticated { id } => {
                    assert_eq!(id, remote);
                    machine.admit(now);
                }
                Output::Greeted { hello, .. } => {
                    assert_eq!(hello.encode(), bytes(&theirs[0].payload));
                    machine.admit(now);
                    told.push((0, hello.encode()));
                }
                Output::Message { code, payload, .. } => told.push((code + 16, payload)),
                Output::Closed(reason) => {
                    let crate::CloseReason::Remote(DisconnectReason(reason)) = reason else {
                        panic!("{}: {reason}", session.note)
                    };
                    told.push((1, DisconnectReason(reason).encode()));
                }
            }
        }
    }
    // Pongs cause no output.
    let wanted: Vec<(u64, Vec<u8>)> =
        theirs.iter().filter(|frame| frame.code != 3).map(|frame| (frame.code, bytes(&frame.payload))).collect();
    assert_eq!(told, wanted, "{}", session.note);
}

#[test]
fn the_state_machine_sends_the_references_bytes_for_input_in_pieces_of_any_size() {
    // This state machine's Hello has version 5, so the reference would have compressed its payloads.
    for session in sessions().iter().filter(|session| !session.note.contains("version 4")) {
        for piece in [usize::MAX, 1000, 61] {
            replay(session, piece);
        }
    }
}

#[test]
fn hello_is_encoded_as_recorded() {
    for session in sessions() {
        for frame in session.frames.iter().filter(|frame| frame.name == "Hello") {
            let payload = bytes(&frame.payload);
            let hello = Hello::decode(&payload).unwrap();
            let encoded = hello.encode();
            // One recorded Hello has two further elements.
            assert!(encoded == payload || session.note.contains("extra elements"), "{}", session.note);
        }
    }
}

/// `docs/spec/p2p.md` 26.2: packets of an older set of vectors, in both formats, with further elements and other
/// versions.
#[test]
fn packets_of_the_specification_are_decoded() {
    let text = include_str!("../../../../docs/spec/p2p.md");
    let section = text.split("### 26.2").nth(1).unwrap().split("### 26.3").next().unwrap();
    let packets: Vec<Vec<u8>> = section
        .split("```\n")
        .skip(1)
        .step_by(2)
        .map(|block| bytes(&block.split_whitespace().collect::<String>()))
        .collect();
    let (a, b) = (
        parse_key("49a7b37aa6f6645917e7b807e9d1c00d4fa71f18343b0d4122a4d2df64dd6fee").unwrap(),
        parse_key("b71c71a67e1177ad4e901695e1b4b9ee17ae16c6668d313eac2f96dbcda3f291").unwrap(),
    );
    let ephemeral_b = "b6d82fa3409da933dbf9cb0140c5dde89f4e64aec88d476af648880f4a10e1e49fe35ef3e69e93dd300b4797765a747c6384a6ecf5db9c2690398607a86181e4";
    assert_eq!(packets.len(), 6);

    for (number, auth) in packets[..3].iter().enumerate() {
        let secret = "e238eb8e04fee6511ab04c6dd3c89ce097b11f25d584863ac2b6d5b35b1847e4";
        let random = HandshakeRandom {
            ephemeral: parse_key(secret).unwrap(),
            nonce: array("559aead08264d5795d3909718cdd05abd49572e84fe55590eef31a88a08fdffd"),
            packet_key: NodeKey::random().unwrap(),
            packet_iv: [1; 16],
            padding: 100,
        };
        let opened = PacketReader::auth().open(&b, auth).unwrap().unwrap();
        let responded = crate::handshake::respond(&b, &random, &opened, auth).unwrap();
        assert_eq!(responded.remote, a.id(), "auth {}", number + 1);
        if number == 1 {
            // The secrets depend on the acknowledgement in the vectors, not on the one just made.
            let ecdhe = array("1a08ef840fa6b55e5b2630351aa45804cc16b48e526b64e6ee667b224967ef24");
            let secrets = Secrets::derive(&Agreement {
                ecdhe: &ecdhe,
                initiator_nonce: &array("7e968bba13b6c50e2c4cd7f241cc0d64d1ac25c7f5952df231ac6a2bda8ee5d6"),
                responder_nonce: &random.nonce,
                auth,
                ack: &packets[4],
            });
            assert_eq!(hex::encode(*secrets.aes), "80e8632c05fed6fc2a13b0f8d31a3cf645366239170ea067065aba8e28bac487");
            assert_eq!(
                hex::encode(secrets.responder_mac.digest()),
                "7a076efd50d3771655f22190654053ba82f6f47f3123be6a4ba61df58845abc6"
            );
        }
    }
    for ack in &packets[3..] {
        let opened = PacketReader::ack().open(&a, ack).unwrap().unwrap();
        let content = match opened.format {
            Format::Plain => opened.content[..64].to_vec(),
            Format::Sized => crate::handshake::decode_ack_content(&opened.content).unwrap().ephemeral.0.to_vec(),
        };
        assert_eq!(hex::encode(content), ephemeral_b);
    }
}
