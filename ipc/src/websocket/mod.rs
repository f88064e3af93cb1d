//! WebSocket (`docs/spec/rpc-eth.md` 2.3): the upgrade, the origin check, and messages.
//!
//! Frames are our own (`frame.rs`) instead of soketto's: soketto 0.8 cannot close with 1009, allocates as many bytes as
//! a frame's header announces, and writes header and payload separately. The tests use it as their client.

pub(crate) mod frame;
pub(crate) mod handshake;
pub(crate) mod origin;

use std::{collections::VecDeque, time::Duration};

use bytes::{Bytes, BytesMut};
use zeroize::Zeroize as _;

use crate::{
    duplex::{DuplexLimits, Encode, Framing, Incoming},
    envelope::{Dispatcher, EnvelopeLimits, Parsed, Reply, failures},
    service::RpcService,
};
use frame::{CloseCode, Decoded, Decoder};

/// Limits of the WebSocket front-end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocketLimits {
    /// Limits of each message.
    pub envelope: EnvelopeLimits,
    /// Concurrent connections, as for HTTP. On a port that HTTP and WebSocket share, HTTP's number counts.
    pub connections: usize,
    /// Bytes of one incoming message, fragments together. A larger one closes the connection with 1009.
    pub message_bytes: usize,
    /// Concurrent calls of one connection; further messages wait unread.
    pub calls_in_flight: usize,
    /// Bytes that may wait for a connection that does not read. Beyond them no further call is started, and
    /// a notification closes the connection.
    pub queued_bytes: usize,
    /// Time limit for the client to read one write.
    pub write_timeout: Duration,
    /// A ping is sent this often; a connection that sends nothing for three times as long is closed. `None` for
    /// never.
    pub ping_interval: Option<Duration>,
}

impl WebSocketLimits {
    /// `envelope`, `connections` and `message_bytes` as given; the other limits are fixed.
    pub const fn new(envelope: EnvelopeLimits, connections: usize, message_bytes: usize) -> Self {
        Self {
            envelope,
            connections,
            message_bytes,
            calls_in_flight: 128,
            queued_bytes: 16 << 20,
            write_timeout: Duration::from_secs(10),
            ping_interval: Some(Duration::from_secs(60)),
        }
    }

    pub(crate) fn duplex(&self) -> DuplexLimits {
        DuplexLimits {
            calls_in_flight: self.calls_in_flight,
            queued_bytes: self.queued_bytes,
            write_timeout: self.write_timeout,
            silence: self.ping_interval.map(|interval| interval.saturating_mul(3)),
            ping_interval: self.ping_interval,
            subscriptions: self.envelope.subscriptions,
        }
    }
}

/// One JSON-RPC message per WebSocket message; the text after the first JSON value is ignored.
pub(crate) struct Messages<S> {
    dispatcher: Dispatcher<S>,
    decoder: Decoder,
}

impl<S: RpcService> Messages<S> {
    pub(crate) fn new(dispatcher: Dispatcher<S>, message_bytes: usize) -> Self {
        Self { dispatcher, decoder: Decoder::new(message_bytes) }
    }
}

impl<S: RpcService> Framing for Messages<S> {
    fn next(&mut self, buffer: &mut BytesMut) -> Incoming {
        match self.decoder.next(buffer) {
            Decoded::More => Incoming::More,
            Decoded::Pong(pong) => Incoming::Control(pong),
            Decoded::Closed(answer) => Incoming::Leave { goodbye: Some(answer) },
            Decoded::Violation(code) => Incoming::Refuse { goodbye: code.frame() },
            Decoded::Message(mut text) => match self.dispatcher.parse(&text) {
                Parsed::Message(message) => Incoming::Message(self.dispatcher.sealed_text(text, &message), message),
                // The reference drops the connection without a close frame, and without any reply if the message is
                // empty or cut off. Whether it contains a secret is unknown.
                Parsed::Empty | Parsed::Truncated => {
                    text.as_mut().zeroize();
                    Incoming::Finish { reply: None, goodbye: None }
                }
                Parsed::Invalid(error) => {
                    text.as_mut().zeroize();
                    let reply = Reply::failure_without_request(&failures::syntax(error.0));
                    Incoming::Finish { reply: Some(reply), goodbye: None }
                }
            },
        }
    }

    fn encode() -> Encode {
        encode
    }

    fn keep_alive() -> Option<Bytes> {
        Some(frame::ping())
    }

    fn goodbye() -> Option<Bytes> {
        Some(CloseCode::GOING_AWAY.frame())
    }

    fn expired() -> Option<Bytes> {
        Some(CloseCode::POLICY.frame_with("token is expired"))
    }

    fn may_half_close() -> bool {
        false
    }

    fn kept_bytes(&self) -> usize {
        self.decoder.kept_bytes()
    }

    fn drop_message(&mut self, buffer: &mut BytesMut) -> bool {
        self.decoder.drop_message(buffer)
    }
}

fn encode(reply: Reply, pieces: &mut VecDeque<Bytes>) {
    let length = reply.len();
    let mut head = Vec::with_capacity(10 + if reply.rest.is_none() { length } else { 0 });
    frame::write_text_header(&mut head, length);
    match reply.rest {
        None => {
            head.extend_from_slice(&reply.first);
            pieces.push_back(head.into());
        }
        Some(rest) => {
            pieces.extend([head.into(), reply.first]);
            pieces.extend(*rest);
        }
    }
}
