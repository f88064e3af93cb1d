//! Errors of messages.

use alloy_primitives::B256;
use tenon_chain::DecodeError;

use crate::limits::MAX_MESSAGE_BYTES;

/// Why a message is refused. Each of these errors ends the connection to the sender (`docs/spec/p2p.md` 13, 21).
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::From, thiserror::Error)]
pub enum WireError {
    /// The message is longer than the limit of its kind.
    #[error("Message too long - {bytes} > {limit}")]
    TooLong {
        /// Its size in bytes.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The protocol version has no message with this code.
    #[error("Invalid message code - {code}")]
    Code {
        /// The code.
        code: u64,
    },
    /// The payload does not have the layout of the message.
    #[error("Invalid message: {0}")]
    #[from(alloy_rlp::Error)]
    Rlp(alloy_rlp::Error),
    /// The message contains a malformed header, transaction or receipt.
    #[error("Invalid message: {0}")]
    Content(#[from] DecodeError),
    /// The message contains more items than the limit.
    #[error("more than {limit} items in a message")]
    TooManyItems {
        /// The limit.
        limit: usize,
    },
    /// The origin of a request for headers is neither a hash nor a number.
    #[error("invalid input size {bytes} for origin")]
    OriginSize {
        /// Its size in bytes.
        bytes: usize,
    },
    /// A blob transaction, which these chains do not have.
    #[error("transaction type not supported")]
    BlobTransaction,
    /// A header without the three fields that these chains add.
    #[error("header of another chain family")]
    ForeignHeader,
}

impl WireError {
    pub(crate) const fn too_long(bytes: usize) -> Self {
        Self::TooLong { bytes, limit: MAX_MESSAGE_BYTES }
    }
}

/// Why a peer's Status does not match (`docs/spec/p2p.md` 12.1), in the order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatusMismatch {
    /// The peer has another genesis block.
    #[error("Genesis block mismatch - {} (!= {})", first_bytes(theirs), first_bytes(ours))]
    Genesis {
        /// The peer's genesis.
        theirs: B256,
        /// This node's genesis.
        ours: B256,
    },
    /// The peer is on another network.
    #[error("NetworkId mismatch - {theirs} (!= {ours})")]
    Network {
        /// The peer's network.
        theirs: u64,
        /// This node's network.
        ours: u64,
    },
    /// The version is not the agreed one.
    #[error("Protocol version mismatch - {theirs} (!= {ours})")]
    Version {
        /// The peer's version.
        theirs: u32,
        /// The agreed one.
        ours: u32,
    },
}

fn first_bytes(hash: &B256) -> String {
    alloy_primitives::hex::encode(&hash[..8])
}
