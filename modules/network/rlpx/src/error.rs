//! Errors of the transport.

use tenon_network_identity::KeyError;

use crate::base::DisconnectReason;

/// Why a packet of the handshake is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The size in front of a packet is below that of a packet in the plain format.
    #[error("size underflow, need at least {minimum} bytes")]
    SizeUnderflow {
        /// Size of the plain packet in bytes.
        minimum: usize,
    },
    /// The packet is too short, begins with another byte than 04, or its MAC is wrong.
    #[error("packet cannot be decrypted")]
    Undecryptable,
    /// A key in the packet is not a point of the curve, or a signature is wrong.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The decrypted content is malformed.
    #[error("handshake content is malformed: {0}")]
    Rlp(alloy_rlp::Error),
}

impl From<alloy_rlp::Error> for HandshakeError {
    fn from(error: alloy_rlp::Error) -> Self {
        Self::Rlp(error)
    }
}

/// Why a frame is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The header's MAC is wrong.
    #[error("bad header MAC")]
    HeaderMac,
    /// The body's MAC is wrong.
    #[error("bad frame MAC")]
    BodyMac,
    /// A frame without a code, or with a code in another than its only form.
    #[error("message code is malformed")]
    Code,
    /// The payload is not Snappy's block format.
    #[error("payload cannot be decompressed")]
    Compression,
    /// Frame or decompressed payload beyond the limit.
    #[error("message of {bytes} bytes, limit {limit}")]
    TooLong {
        /// Declared size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
}

/// Why a Hello is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// More than 2,048 bytes.
    #[error("message too big")]
    TooLong,
    /// Another message.
    #[error("expected handshake, got {code:x}")]
    OtherMessage {
        /// Its code.
        code: u64,
    },
    /// Malformed.
    #[error("Hello is malformed: {0}")]
    Rlp(alloy_rlp::Error),
    /// An identifier of zeros.
    #[error("node ID of zeros")]
    ZeroId,
    /// Another identifier than the one of the handshake.
    #[error("node ID differs from the handshake's")]
    OtherId,
}

impl From<alloy_rlp::Error> for HelloError {
    fn from(error: alloy_rlp::Error) -> Self {
        Self::Rlp(error)
    }
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The peer's packet of the handshake is wrong.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// A frame is wrong.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The peer's Hello is wrong.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// No capability in common.
    #[error("no capability in common")]
    NoCommonCapability,
    /// A code outside all agreed protocols.
    #[error("msg code out of range: {code}")]
    CodeOutOfRange {
        /// The code on the wire.
        code: u64,
    },
    /// Handshake and Hello took too long.
    #[error("handshake timeout")]
    HandshakeTimeout,
    /// No complete frame within the limit.
    #[error("read timeout")]
    Idle,
    /// The peer ended the session.
    #[error("peer disconnected: {0}")]
    Remote(DisconnectReason),
    /// This side ended it.
    #[error("disconnected: {0}")]
    Local(DisconnectReason),
}

/// Why a message cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The session is not past its Hello, or has ended.
    #[error("session is not open")]
    NotOpen,
    /// The agreed protocol has no such code.
    #[error("invalid message code: not handled")]
    Code,
    /// The payload is too long for a frame.
    #[error("message size overflows uint24")]
    TooLong,
}
