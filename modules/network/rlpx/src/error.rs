//! Errors of the transport.

use tenon_network_identity::KeyError;

use crate::base::DisconnectReason;

/// Why a packet of the handshake is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::From, thiserror::Error)]
pub enum HandshakeError {
    /// The size prefix of a packet is smaller than a packet in the plain format.
    #[error("size underflow, need at least {minimum} bytes")]
    SizeUnderflow {
        /// Size of a plain packet in bytes.
        minimum: usize,
    },
    /// The packet is too short, does not begin with 04, or has a wrong MAC.
    #[error("packet cannot be decrypted")]
    Undecryptable,
    /// A key in the packet is not a point of the curve, or a signature is wrong.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The decrypted content is malformed.
    #[error("handshake content is malformed: {0}")]
    #[from(alloy_rlp::Error)]
    Rlp(alloy_rlp::Error),
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
    /// The frame has no code, or its code is not in its shortest form.
    #[error("message code is malformed")]
    Code,
    /// The payload is not in Snappy's block format.
    #[error("payload cannot be decompressed")]
    Compression,
    /// The frame or the decompressed payload exceeds the limit.
    #[error("message of {bytes} bytes, limit {limit}")]
    TooLong {
        /// Declared size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
}

/// Why a Hello is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::From, thiserror::Error)]
pub enum HelloError {
    /// The payload has more than 2,048 bytes.
    #[error("message too big")]
    TooLong,
    /// The message is not a Hello.
    #[error("expected handshake, got {code:x}")]
    OtherMessage {
        /// Its code.
        code: u64,
    },
    /// The payload is malformed.
    #[error("Hello is malformed: {0}")]
    #[from(alloy_rlp::Error)]
    Rlp(alloy_rlp::Error),
    /// The identifier's bytes are all zero.
    #[error("node ID of zeros")]
    ZeroId,
    /// The identifier differs from the one of the handshake.
    #[error("node ID differs from the handshake's")]
    OtherId,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The peer's handshake packet is invalid.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// A frame is invalid.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The peer's Hello is invalid.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// The peers have no capability in common.
    #[error("no capability in common")]
    NoCommonCapability,
    /// A code is outside all agreed protocols.
    #[error("msg code out of range: {code}")]
    CodeOutOfRange {
        /// The code on the wire.
        code: u64,
    },
    /// Handshake and Hello took too long.
    #[error("handshake timeout")]
    HandshakeTimeout,
    /// No complete frame arrived within the time limit.
    #[error("read timeout")]
    Idle,
    /// The peer sent a Disconnect.
    #[error("peer disconnected: {0}")]
    Remote(DisconnectReason),
    /// This side ended the session.
    #[error("disconnected: {0}")]
    Local(DisconnectReason),
}

/// Why a message cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The session has not completed its Hello, or has ended.
    #[error("session is not open")]
    NotOpen,
    /// The agreed protocol has no such code.
    #[error("invalid message code: not handled")]
    Code,
    /// The payload does not fit into a frame.
    #[error("message size overflows uint24")]
    TooLong,
}
