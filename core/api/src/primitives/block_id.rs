//! Ways to name a block.

use alloy_primitives::B256;
use derive_more::{Display, From};
use serde::{Deserialize, Serialize};

/// The height of a block; the genesis block has number 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Display, From, Serialize, Deserialize)]
pub struct BlockNumber(pub u64);

impl BlockNumber {
    /// The number of the genesis block.
    pub const GENESIS: Self = Self(0);

    /// The child's number. Saturates at the maximum.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The parent's number, `None` for the genesis block.
    pub const fn parent(self) -> Option<Self> {
        match self.0.checked_sub(1) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }
}

/// A block named by its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BlockTag {
    /// The genesis block.
    Earliest,
    /// The head of the canonical chain.
    Latest,
    /// The block being built; queries that have no pending form treat it as `Latest`.
    Pending,
    /// The last block that consensus will not undo.
    Finalized,
    /// The last block that is unlikely to be undone.
    Safe,
}

/// A caller's reference to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, From, Serialize, Deserialize)]
pub enum BlockId {
    /// By role.
    #[from]
    Tag(BlockTag),
    /// By height on the canonical chain.
    #[from]
    Number(BlockNumber),
    /// By hash, on any branch.
    Hash {
        /// The block hash.
        hash: B256,
        /// Whether to refuse a block that is not on the canonical chain.
        require_canonical: bool,
    },
}

impl From<B256> for BlockId {
    fn from(hash: B256) -> Self {
        Self::hash(hash)
    }
}

impl BlockId {
    /// The head of the canonical chain.
    pub const LATEST: Self = Self::Tag(BlockTag::Latest);

    /// The block with this hash, on any branch.
    pub const fn hash(hash: B256) -> Self {
        Self::Hash { hash, require_canonical: false }
    }

    /// The canonical block of this height.
    pub const fn number(number: u64) -> Self {
        Self::Number(BlockNumber(number))
    }
}
