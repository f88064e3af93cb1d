//! Why a query about epochs has no answer.

use alloy_primitives::B256;

/// Why a query about epochs of a native chain and their rounds has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EpochRefusal {
    /// The epoch has not begun.
    #[error("the epoch has not begun")]
    Future,
    /// The epoch is one of engine v1.
    #[error("the epoch is one of engine v1")]
    OfEngineV1,
    /// The block is one of engine v1.
    #[error("the block is one of engine v1")]
    BlockOfEngineV1,
    /// No round of the epoch has a block.
    #[error("no round of the epoch has a block")]
    WithoutBlock,
    /// The epoch of this block has no masternodes, so its rounds have no leaders.
    #[error("the epoch of block {number} ({hash}) has no masternodes")]
    NoMasternodes {
        /// Height of the block.
        number: u64,
        /// Its hash.
        hash: B256,
    },
    /// An ancestor of the block is not stored.
    #[error("the ancestor {0} is not stored")]
    UnknownAncestor(B256),
    /// A block between a block and the first of its epoch is not stored.
    #[error("block {number} ({hash}) is not stored")]
    MissingBlock {
        /// Its height.
        number: u64,
        /// Its hash.
        hash: B256,
    },
    /// A block whose signers count for the rewards of an epoch is not stored.
    #[error("block {number} ({hash}), whose signers are rewarded, is not stored")]
    MissingRewardedBlock {
        /// Its height.
        number: u64,
        /// Its hash.
        hash: B256,
    },
    /// The gap block of an epoch is not canonical.
    #[error("there is no canonical gap block {0}")]
    NoGapBlock(u64),
    /// The block that switches to engine v2 is not canonical.
    #[error("there is no canonical switch block {0}")]
    NoSwitchBlock(u64),
    /// The state that decides about an epoch has no candidates.
    #[error("the state has no candidates")]
    NoCandidates,
}
