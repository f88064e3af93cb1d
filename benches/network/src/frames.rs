//! Received frames: a [`Session`] that reads frames of headers, bodies, transactions and votes up to their decompressed
//! payloads, compared with cipher, MAC and Snappy alone on frames of the same sizes.
//!
//! "Alone" is the minimum that any implementation of the transport must compute. It runs in the same process, with the
//! same libraries, on the same bytes, and alternates with the session. Both are measured in processor time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aes::Aes256;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use alloy_primitives::Keccak256;
use clap::Args;
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit, StreamCipher};
use serde_json::{Value, json};
use tenon_api::Block;
use tenon_chain::round_messages::Vote;
use tenon_network_identity::NodeKey;
use tenon_network_rlpx::{HandshakeRandom, OfferedProtocol, Output, Session, SessionSettings};
use tenon_network_wire::{BlockBody, Kind, Message, Version, version};

use crate::{Outcome, blocks, processor};

/// Bytes that a connection reads in one call.
const READ_BYTES: usize = 64 * 1024;
const HEADER_BYTES: usize = 32;
const MAC_BYTES: usize = 16;
/// Numbers of items in a message, as large as an answer can be.
const HEADERS: usize = 192;
const BODIES: usize = 20;
const TRANSACTIONS: usize = 800;
const VERSION: u32 = 100;
const NOW: Duration = Duration::ZERO;

/// Options of the measurement.
#[derive(Args)]
pub(crate) struct Plan {
    /// Blocks as RLP: the chain `load`
    #[arg(long)]
    chain: PathBuf,
    /// Bytes of payloads of each kind in a round
    #[arg(long, default_value_t = 32 << 20)]
    bytes: usize,
    /// Rounds of each side; the fastest counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// Two open sessions.
struct Link {
    sender: Session,
    receiver: Session,
}

impl Link {
    fn open(version: &Version) -> Outcome<Self> {
        let settings =
            SessionSettings::new("bench", vec![OfferedProtocol::new("eth", version.number.into(), version.length)]);
        let (dialer, listener) = (Arc::new(NodeKey::random()?), Arc::new(NodeKey::random()?));
        let (ours, theirs) = (HandshakeRandom::generate()?, HandshakeRandom::generate()?);
        let sender = Session::dial(settings.clone(), &dialer, listener.id(), ours, NOW)?;
        let receiver = Session::accept(settings, &listener, theirs, NOW);
        let mut link = Self { sender, receiver };
        while link.exchange() {}
        if link.sender.agreed().is_empty() || link.receiver.agreed().is_empty() {
            return Err("the handshake failed".into());
        }
        Ok(link)
    }

    /// Moves bytes both ways. Returns whether there were any.
    fn exchange(&mut self) -> bool {
        let (there, back) = (written(&mut self.sender), written(&mut self.receiver));
        self.receiver.receive(&there);
        self.sender.receive(&back);
        !there.is_empty() || !back.is_empty()
    }
}

/// Admits the peer, and returns the bytes to write.
fn written(session: &mut Session) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(output) = session.next_output(NOW) {
        match output {
            Output::Write(more) => bytes.extend(more),
            Output::Authenticated { .. } | Output::Greeted { .. } => session.admit(NOW),
            Output::Message { .. } | Output::Closed(_) => {}
        }
    }
    bytes
}

/// Encrypted frames of one kind, one after the other.
struct Frames {
    bytes: Vec<u8>,
    /// Size of each frame.
    sizes: Vec<usize>,
    /// The payload of each, compressed.
    compressed: Vec<u8>,
    code: u64,
}

/// As many frames of the message as reach this number of payload bytes.
fn frames(link: &mut Link, message: &Message, version: &Version, bytes: usize) -> Outcome<Frames> {
    let (kind, payload) = message.encode().ok_or("not sent")?;
    let code = version.code(kind).ok_or("not in this version")?;
    let count = bytes.div_ceil(payload.len());
    let compressed = tenon_network_rlpx::parts::compress(&payload)?;
    let mut found = Frames { bytes: Vec::new(), sizes: Vec::new(), compressed, code };
    for _ in 0..count {
        link.sender.send(0, code, &payload)?;
        let frame = written(&mut link.sender);
        found.sizes.push(frame.len());
        found.bytes.extend(frame);
    }
    Ok(found)
}

/// Reads the frames like a connection, up to the payloads. Returns their number.
fn received(session: &mut Session, frames: &Frames) -> Outcome<usize> {
    let mut messages = 0;
    for chunk in frames.bytes.chunks(READ_BYTES) {
        session.receive(chunk);
        while let Some(output) = session.next_output(NOW) {
            match output {
                Output::Message { code, .. } if code == frames.code => messages += 1,
                other => return Err(format!("{other:?}").into()),
            }
        }
    }
    Ok(messages)
}

/// Cipher, MAC and Snappy as a receiver must compute them.
struct Alone {
    cipher: Ctr128BE<Aes256>,
    mac: Keccak256,
    mac_cipher: Aes256,
}

impl Alone {
    fn new() -> Self {
        let key = [7; 32];
        let cipher = Ctr128BE::<Aes256>::new(&key.into(), &[0; 16].into());
        Self { cipher, mac: Keccak256::new(), mac_cipher: Aes256::new(&key.into()) }
    }

    fn step(&mut self, seed: [u8; 16]) -> u8 {
        let mut block = self.digest().into();
        self.mac_cipher.encrypt_block(&mut block);
        let mixed: [u8; 16] = std::array::from_fn(|index| block[index] ^ seed[index]);
        self.mac.update(mixed);
        self.digest()[0]
    }

    fn digest(&self) -> [u8; 16] {
        let digest = self.mac.clone().finalize();
        std::array::from_fn(|index| digest[index])
    }

    /// Processes a frame in place. The payload is decompressed from `compressed`, because this cipher has another key
    /// than the session.
    fn frame(&mut self, frame: &mut [u8], compressed: &[u8]) -> Outcome<usize> {
        let (header, body) = frame.split_at_mut(HEADER_BYTES);
        let seed: [u8; 16] = std::array::from_fn(|index| header[index]);
        let first = self.step(seed);
        self.cipher.apply_keystream(&mut header[..16]);
        let content = body.len() - MAC_BYTES;
        self.mac.update(&body[..content]);
        let seed = self.digest();
        let second = self.step(seed);
        self.cipher.apply_keystream(&mut body[..content]);
        let payload = snap::raw::Decoder::new().decompress_vec(compressed)?;
        Ok(payload.len() + usize::from(first ^ second))
    }
}

fn alone(frames: &Frames) -> Outcome<usize> {
    // A connection also copies the bytes that it reads; here the copy is made before, and not measured.
    let (mut alone, mut bytes, mut found) = (Alone::new(), frames.bytes.clone(), 0);
    let (used, ()) = processor::of(|| {
        let mut rest = &mut bytes[..];
        for size in &frames.sizes {
            let (frame, after) = rest.split_at_mut(*size);
            found += alone.frame(frame, &frames.compressed)?;
            rest = after;
        }
        Ok(())
    })?;
    std::hint::black_box(found);
    Ok(usize::try_from(used.as_nanos())?)
}

/// A message of each kind, with blocks of the file.
fn messages(blocks: &[Block]) -> Vec<(&'static str, Message)> {
    let headers = blocks.iter().take(HEADERS).map(|block| block.header.clone()).collect();
    let body = |block: &Block| BlockBody { transactions: block.transactions.clone(), ommers: Vec::new() };
    let bodies = blocks.iter().rev().take(BODIES).map(body).collect();
    let all = blocks.iter().rev().flat_map(|block| block.transactions.iter().cloned());
    let vote = Vote { signature: vec![0xab; 65].into(), ..Vote::default() };
    vec![
        (Kind::BlockHeaders.name(), Message::BlockHeaders(headers)),
        (Kind::BlockBodies.name(), Message::BlockBodies(bodies)),
        (Kind::Transactions.name(), Message::Transactions(all.take(TRANSACTIONS).collect())),
        (Kind::Vote.name(), Message::Vote(vote)),
    ]
}

/// The fastest of several rounds.
fn compare(message: &Message, version: &Version, plan: &Plan) -> Outcome<Value> {
    let (mut session, mut shortest) = (f64::INFINITY, f64::INFINITY);
    let mut of_payload = 0;
    for _ in 0..plan.rounds {
        let mut link = Link::open(version)?;
        let frames = frames(&mut link, message, version, plan.bytes)?;
        let (used, count) = processor::of(|| received(&mut link.receiver, &frames))?;
        if count != frames.sizes.len() {
            return Err(format!("{count} of {} messages arrived", frames.sizes.len()).into());
        }
        of_payload = snap::raw::decompress_len(&frames.compressed)?;
        session = session.min(used.as_nanos() as f64 / count as f64);
        shortest = shortest.min(alone(&frames)? as f64 / count as f64);
    }
    Ok(json!({
        "payload_bytes": of_payload,
        "nanoseconds": session.round(),
        "alone_nanoseconds": shortest.round(),
        "ratio": shortest / session,
    }))
}

/// By kind of message: nanoseconds per message, alone and by the session.
pub(crate) fn measure(plan: &Plan) -> Outcome<Value> {
    let version = version(VERSION).ok_or("no such version")?;
    let blocks = blocks::read(&plan.chain)?;
    let compared =
        messages(&blocks).into_iter().map(|(name, message)| Ok((name.into(), compare(&message, version, plan)?)));
    Ok(Value::Object(compared.collect::<Outcome<_>>()?))
}
