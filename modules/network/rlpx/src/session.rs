//! A connection from its first to its last byte, without I/O (`docs/spec/p2p.md` 6 to 8, 10).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tenon_network_identity::{NodeId, NodeKey};

use crate::base::{BASE_PROTOCOL_VERSION, DisconnectReason, EMPTY_LIST, Hello, MAX_HELLO_BYTES, code, read_disconnect};
use crate::capability::{AgreedProtocol, BASE_PROTOCOL_LENGTH, OfferedProtocol, agree_on_protocols};
use crate::compression::decompress;
use crate::error::{CloseReason, FrameError, HandshakeError, HelloError, SendError};
use crate::frame::{FrameCodec, MAX_CONTENT_BYTES};
use crate::handshake::{Format, HandshakeRandom, Initiator, PacketReader, respond};

/// Maximum number of bytes of the code before a payload.
const MAX_CODE_BYTES: usize = 9;
/// A Disconnect whose payload begins with one of these bytes is not compressed: a list of zero or one byte
/// (`docs/spec/p2p.md` 7).
const PLAIN_DISCONNECT: [u8; 2] = [0xc0, 0xc1];

/// Settings shared by all sessions of a node.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// The client's name in Hello.
    pub name: String,
    /// Sub-protocols, in the order in which Hello lists them.
    pub offers: Vec<OfferedProtocol>,
    /// Time limit for handshake and Hello together.
    pub handshake_timeout: Duration,
    /// Maximum time without a complete frame.
    pub idle_timeout: Duration,
    /// Interval between two Pings.
    pub ping_interval: Duration,
    /// Maximum size of a message's payload, decompressed, in bytes; at most 16,777,215.
    pub max_message_bytes: usize,
}

impl SessionSettings {
    /// Settings with the times and limits of `docs/spec/p2p.md` 1.
    pub fn new(name: &str, offers: Vec<OfferedProtocol>) -> Self {
        Self {
            name: name.to_owned(),
            offers,
            handshake_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(30),
            ping_interval: Duration::from_secs(15),
            max_message_bytes: MAX_CONTENT_BYTES,
        }
    }
}

/// Actions for the owner of a session, to be executed in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Write these bytes.
    Write(Vec<u8>),
    /// The peer has proven that it owns this key. Respond with [`Session::admit`] or [`Session::refuse`].
    Authenticated {
        /// The peer.
        id: NodeId,
    },
    /// The peer's Hello arrived. Respond with [`Session::admit`] or [`Session::refuse`].
    Greeted {
        /// The contents of the Hello.
        hello: Hello,
        /// Common sub-protocols, at least one.
        agreed: Vec<AgreedProtocol>,
    },
    /// A message of a sub-protocol arrived.
    Message {
        /// Index among the agreed sub-protocols.
        protocol: usize,
        /// Its code within the sub-protocol.
        code: u64,
        /// Its payload, decompressed.
        payload: Vec<u8>,
    },
    /// Close the socket once everything is written. This is the last output.
    Closed(CloseReason),
}

enum State {
    /// Waits for the peer's auth.
    AwaitAuth {
        random: Box<HandshakeRandom>,
        reader: PacketReader,
    },
    /// Waits for the response to this side's auth.
    AwaitAck {
        initiator: Box<Initiator>,
    },
    /// Waits for the owner's first decision.
    Authenticated,
    /// Waits for the peer's Hello.
    AwaitHello,
    /// Waits for the owner's second decision.
    Greeted,
    Open,
    Closed,
}

/// One connection.
///
/// [`Session::receive`] buffers bytes; [`Session::next_output`] processes them one frame at a time. An owner that
/// cannot write any more stops calling both, which slows the peer down.
pub struct Session {
    settings: SessionSettings,
    our_id: NodeId,
    /// The dialed or authenticated peer.
    remote: Option<NodeId>,
    state: State,
    key: KeyUse,
    frames: Option<FrameCodec>,
    agreed: Vec<AgreedProtocol>,
    is_compressed: bool,
    /// Received bytes. The first `read` of them are processed.
    received: Vec<u8>,
    /// Number of processed bytes at the start of `received`. They are removed together.
    read: usize,
    outputs: VecDeque<Output>,
    /// When the current state times out. In an open session, every frame postpones it.
    deadline: Duration,
    next_ping: Duration,
}

/// The node's key, which the handshake uses; dropped after the handshake.
type KeyUse = Option<Arc<NodeKey>>;

impl Session {
    /// Creates a session for a connection that this node dialed. The first output is the auth.
    ///
    /// # Errors
    /// [`HandshakeError::Key`] if the remote's identifier is not a point of the curve.
    pub fn dial(
        settings: SessionSettings,
        key: &Arc<NodeKey>,
        remote: NodeId,
        random: HandshakeRandom,
        now: Duration,
    ) -> Result<Self, HandshakeError> {
        let initiator = Initiator::new(key, &remote, random, Format::Sized)?;
        Ok(Self::dial_with(settings, key, remote, initiator, now))
    }

    pub(crate) fn dial_with(
        settings: SessionSettings,
        key: &Arc<NodeKey>,
        remote: NodeId,
        initiator: Initiator,
        now: Duration,
    ) -> Self {
        let auth = initiator.packet().to_vec();
        let mut session = Self::new(settings, key, State::AwaitAck { initiator: Box::new(initiator) }, now);
        session.remote = Some(remote);
        session.outputs.push_back(Output::Write(auth));
        session
    }

    /// Creates a session for an accepted connection.
    pub fn accept(settings: SessionSettings, key: &Arc<NodeKey>, random: HandshakeRandom, now: Duration) -> Self {
        Self::new(settings, key, State::AwaitAuth { random: Box::new(random), reader: PacketReader::auth() }, now)
    }

    fn new(settings: SessionSettings, key: &Arc<NodeKey>, state: State, now: Duration) -> Self {
        Self {
            deadline: now + settings.handshake_timeout,
            next_ping: now + settings.ping_interval,
            settings,
            our_id: key.id(),
            remote: None,
            state,
            key: Some(key.clone()),
            frames: None,
            agreed: Vec::new(),
            is_compressed: false,
            received: Vec::new(),
            read: 0,
            outputs: VecDeque::new(),
        }
    }

    /// The peer: known from the start for a dialed connection, from [`Output::Authenticated`] on for an accepted one.
    pub const fn remote(&self) -> Option<NodeId> {
        self.remote
    }

    /// The agreed sub-protocols, from [`Output::Greeted`] on.
    pub fn agreed(&self) -> &[AgreedProtocol] {
        &self.agreed
    }

    /// Returns whether the session has ended.
    pub const fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Number of bytes received and not yet processed.
    pub const fn unread_bytes(&self) -> usize {
        self.received.len() - self.read
    }

    /// Whether a whole handshake message, frame header or frame body is unread.
    pub fn has_whole_part(&self) -> bool {
        self.frames.as_ref().is_none_or(|frames| self.unread_bytes() >= frames.needed())
    }

    /// When to call [`Session::tick`] next, unless bytes arrive earlier.
    pub fn wakes_at(&self) -> Option<Duration> {
        match self.state {
            State::Closed => None,
            State::Open => Some(self.deadline.min(self.next_ping)),
            _ => Some(self.deadline),
        }
    }

    /// Extends the idle time limit by `pause`, in which the owner read nothing, so that the peer could not be heard.
    pub fn extend_idle_time(&mut self, pause: Duration) {
        if matches!(self.state, State::Open) {
            self.deadline = self.deadline.saturating_add(pause);
        }
    }

    /// Buffers bytes from the socket.
    pub fn receive(&mut self, bytes: &[u8]) {
        if !self.is_closed() {
            self.received.extend_from_slice(bytes);
        }
    }

    /// Checks the time limits, and sends a Ping if one is due.
    pub fn tick(&mut self, now: Duration) {
        if self.is_closed() {
            return;
        }
        if now >= self.deadline {
            let reason =
                if matches!(self.state, State::Open) { CloseReason::Idle } else { CloseReason::HandshakeTimeout };
            return self.close(reason);
        }
        if matches!(self.state, State::Open) && now >= self.next_ping {
            // Counted from the previous Ping, regardless of other messages. A clock that jumped does not cause a burst
            // of Pings.
            self.next_ping = (self.next_ping + self.settings.ping_interval).max(now);
            self.write(code::PING, &EMPTY_LIST);
        }
    }

    /// Returns the next output, or `None` if more bytes, a decision or a later time are required.
    pub fn next_output(&mut self, now: Duration) -> Option<Output> {
        loop {
            if let Some(output) = self.outputs.pop_front() {
                return Some(output);
            }
            if !self.advance(now) {
                return None;
            }
        }
    }

    /// Returns the bytes to write next, unless another output precedes them. Unlike [`Session::next_output`], it
    /// processes no received bytes.
    pub fn queued_write(&mut self) -> Option<Vec<u8>> {
        match self.outputs.pop_front()? {
            Output::Write(bytes) => Some(bytes),
            other => {
                self.outputs.push_front(other);
                None
            }
        }
    }

    /// Admits the peer. To be called after [`Output::Authenticated`] and again after [`Output::Greeted`].
    pub fn admit(&mut self, now: Duration) {
        match self.state {
            State::Authenticated => {
                let hello = Hello {
                    version: BASE_PROTOCOL_VERSION,
                    name: self.settings.name.clone(),
                    capabilities: self.settings.offers.iter().map(|offer| offer.capability.clone()).collect(),
                    listen_port: 0,
                    id: self.our_id,
                };
                self.write(code::HELLO, &hello.encode());
                self.state = State::AwaitHello;
            }
            State::Greeted => {
                self.state = State::Open;
                self.deadline = now + self.settings.idle_timeout;
                self.next_ping = now + self.settings.ping_interval;
            }
            _ => {}
        }
    }

    /// Ends the session with a Disconnect: in place of Hello if Hello was not sent yet, otherwise as the last message.
    pub fn refuse(&mut self, reason: DisconnectReason) {
        self.disconnect(reason, CloseReason::Local(reason));
    }

    /// Sends a message of an agreed sub-protocol.
    ///
    /// # Errors
    /// [`SendError`]; the session continues.
    pub fn send(&mut self, protocol: usize, code: u64, payload: &[u8]) -> Result<(), SendError> {
        if !matches!(self.state, State::Open) {
            return Err(SendError::NotOpen);
        }
        let agreed = self.agreed.get(protocol).ok_or(SendError::Code)?;
        if code >= agreed.length {
            return Err(SendError::Code);
        }
        if payload.len() > self.settings.max_message_bytes {
            return Err(SendError::TooLong);
        }
        let wire_code = agreed.offset + code;
        let frame = self.encode(wire_code, payload).map_err(|_| SendError::TooLong)?;
        self.outputs.push_back(Output::Write(frame));
        Ok(())
    }

    fn encode(&mut self, code: u64, payload: &[u8]) -> Result<Vec<u8>, FrameError> {
        let frames = self.frames.as_mut().ok_or(FrameError::Code)?;
        if self.is_compressed { frames.encode_compressed(code, payload) } else { frames.encode(code, payload) }
    }

    /// Sends a message of the base protocol. Such a message always fits into a frame.
    fn write(&mut self, code: u64, payload: &[u8]) {
        if let Ok(frame) = self.encode(code, payload) {
            self.outputs.push_back(Output::Write(frame));
        }
    }

    fn disconnect(&mut self, sent_reason: DisconnectReason, reason: CloseReason) {
        if self.is_closed() {
            return;
        }
        self.write(code::DISCONNECT, &sent_reason.encode());
        self.close(reason);
    }

    fn close(&mut self, reason: CloseReason) {
        self.state = State::Closed;
        self.received = Vec::new();
        self.read = 0;
        self.key = None;
        self.frames = None;
        self.outputs.push_back(Output::Closed(reason));
    }

    /// Processes the next part of the received bytes. Returns whether anything changed.
    fn advance(&mut self, now: Duration) -> bool {
        let done = match self.state {
            State::AwaitAuth { .. } | State::AwaitAck { .. } => self.read_packet().map_err(CloseReason::from),
            State::AwaitHello | State::Open => self.read_frame(now),
            State::Authenticated | State::Greeted | State::Closed => return false,
        };
        match done {
            Ok(changed) => changed,
            Err(reason) => {
                self.close_after(reason);
                true
            }
        }
    }

    /// Ends the session after an error. Sends a Disconnect if the peer can expect one (`docs/spec/p2p.md` 8.1, 21).
    fn close_after(&mut self, reason: CloseReason) {
        let sent_reason = match reason {
            CloseReason::Hello(HelloError::ZeroId) => Some(DisconnectReason::INVALID_IDENTITY),
            CloseReason::Hello(HelloError::OtherId) => Some(DisconnectReason::UNEXPECTED_IDENTITY),
            CloseReason::NoCommonCapability => Some(DisconnectReason::USELESS_PEER),
            CloseReason::Remote(theirs) => Some(theirs),
            _ => None,
        };
        match sent_reason {
            Some(sent_reason) => self.disconnect(sent_reason, reason),
            None => self.close(reason),
        }
    }

    fn read_packet(&mut self) -> Result<bool, HandshakeError> {
        let Some(key) = self.key.clone() else { return Ok(false) };
        let received = &self.received[self.read..];
        let (secrets, is_initiator) = match &mut self.state {
            State::AwaitAuth { random, reader } => {
                let Some(opened) = reader.open(&key, received)? else { return Ok(false) };
                let auth = received.get(..opened.size).ok_or(HandshakeError::Undecryptable)?;
                let responded = respond(&key, random, &opened, auth)?;
                self.read += opened.size;
                self.remote = Some(responded.remote);
                self.outputs.push_back(Output::Write(responded.ack));
                (responded.secrets, false)
            }
            State::AwaitAck { initiator } => {
                let Some(opened) = initiator.reader.open(&key, received)? else { return Ok(false) };
                let ack = received.get(..opened.size).ok_or(HandshakeError::Undecryptable)?;
                let secrets = initiator.finish(&opened, ack)?;
                self.read += opened.size;
                (secrets, true)
            }
            _ => return Ok(false),
        };
        self.frames = Some(FrameCodec::new(secrets, is_initiator));
        self.key = None;
        self.state = State::Authenticated;
        if let Some(id) = self.remote {
            self.outputs.push_back(Output::Authenticated { id });
        }
        Ok(true)
    }

    /// Maximum content of a frame in the current state. Hello is limited before its body is received; its code takes
    /// one byte.
    fn content_limit(&self) -> usize {
        if matches!(self.state, State::AwaitHello) {
            // Applies to any other message in place of Hello too.
            return MAX_HELLO_BYTES + 1;
        }
        // Compressed data is at most one sixth longer than its content.
        let longest = self.settings.max_message_bytes;
        longest.saturating_add(longest / 6 + 32 + MAX_CODE_BYTES).min(MAX_CONTENT_BYTES)
    }

    fn read_frame(&mut self, now: Duration) -> Result<bool, CloseReason> {
        let limit = self.content_limit();
        let max_payload = self.settings.max_message_bytes;
        let is_compressed = self.is_compressed;
        let Some(frames) = self.frames.as_mut() else { return Ok(false) };
        let end = self.read + frames.needed();
        let Some(part) = self.received.get_mut(self.read..end) else {
            self.forget_read();
            return Ok(false);
        };
        self.read = end;
        let content = match frames.decode(part, limit) {
            Ok(Some(content)) => content,
            Ok(None) => return Ok(true),
            Err(FrameError::TooLong { .. }) if matches!(self.state, State::AwaitHello) => {
                return Err(HelloError::TooLong.into());
            }
            Err(error) => return Err(error.into()),
        };
        let (code, payload) = split_code(content)?;
        let is_plain = !is_compressed
            || (code == code::DISCONNECT && payload.first().is_some_and(|first| PLAIN_DISCONNECT.contains(first)));
        let payload = if is_plain { payload.to_vec() } else { decompress(payload, max_payload)? };
        if matches!(self.state, State::AwaitHello) {
            return self.take_hello(code, &payload).map(|()| true);
        }
        self.deadline = now + self.settings.idle_timeout;
        self.take_message(code, payload).map(|()| true)
    }

    /// Removes processed bytes from the buffer when no complete part is left. Frees memory that is no longer needed.
    fn forget_read(&mut self) {
        if self.read == 0 {
            return;
        }
        self.received.drain(..self.read);
        self.read = 0;
        if self.received.capacity() > 4 * self.received.len() + MAX_KEPT_BYTES {
            self.received.shrink_to(self.received.len().max(MAX_KEPT_BYTES));
        }
    }

    fn take_hello(&mut self, code: u64, payload: &[u8]) -> Result<(), CloseReason> {
        match code {
            code::HELLO => {}
            code::DISCONNECT => return Err(CloseReason::Remote(read_disconnect(payload))),
            code => return Err(HelloError::OtherMessage { code }.into()),
        }
        let hello = Hello::decode(payload)?;
        if hello.id == NodeId::ZERO {
            return Err(HelloError::ZeroId.into());
        }
        self.is_compressed = hello.version >= BASE_PROTOCOL_VERSION;
        if Some(hello.id) != self.remote {
            return Err(HelloError::OtherId.into());
        }
        self.agreed = agree_on_protocols(&self.settings.offers, &hello.capabilities);
        if self.agreed.is_empty() {
            return Err(CloseReason::NoCommonCapability);
        }
        self.state = State::Greeted;
        self.outputs.push_back(Output::Greeted { hello, agreed: self.agreed.clone() });
        Ok(())
    }

    fn take_message(&mut self, code: u64, payload: Vec<u8>) -> Result<(), CloseReason> {
        match code {
            code::DISCONNECT => return Err(CloseReason::Remote(read_disconnect(&payload))),
            code::PING => self.write(code::PONG, &EMPTY_LIST),
            code if code < BASE_PROTOCOL_LENGTH => {}
            code => {
                let of = |agreed: &AgreedProtocol| (agreed.offset..agreed.offset + agreed.length).contains(&code);
                let protocol = self.agreed.iter().position(of).ok_or(CloseReason::CodeOutOfRange { code })?;
                let code = code - self.agreed[protocol].offset;
                self.outputs.push_back(Output::Message { protocol, code, payload });
            }
        }
        Ok(())
    }
}

/// Capacity that an empty buffer may keep.
const MAX_KEPT_BYTES: usize = 16 * 1024;

/// Splits a frame's content into code and payload. Only the shortest form of the code is accepted.
fn split_code(content: &[u8]) -> Result<(u64, &[u8]), FrameError> {
    let mut rest = content;
    let code = <u64 as alloy_rlp::Decodable>::decode(&mut rest).map_err(|_| FrameError::Code)?;
    Ok((code, rest))
}
