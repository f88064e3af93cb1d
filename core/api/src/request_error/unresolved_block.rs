//! Why a block id cannot be resolved to a block.

use serde::{Deserialize, Serialize};

/// Why a block id cannot be resolved to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum UnresolvedBlock {
    /// The caller wants a canonical block, and the block with this hash is not.
    #[error("the block with this hash is not canonical")]
    NotCanonical,
    /// Consensus has finalized no block yet.
    #[error("no block is final yet")]
    NoFinalizedBlock,
    /// Consensus has named no safe block yet.
    #[error("no block is safe yet")]
    NoSafeBlock,
    /// There is no canonical block of this height.
    #[error("no canonical block has this height")]
    UnknownNumber,
    /// There is no block with this hash.
    #[error("no block has this hash")]
    UnknownHash,
    /// There is no block with the hash in a request that names blocks by their hashes only.
    #[error("the block is unknown")]
    Unknown,
    /// The newest block of a history of fees is above the head.
    #[error("block {requested} is above the head, {head}")]
    BeyondHead {
        /// Height of the requested block.
        requested: u64,
        /// Height of the head.
        head: u64,
    },
}
