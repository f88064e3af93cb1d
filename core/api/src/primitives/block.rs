//! Blocks, and the head of the chain.

use alloy_primitives::{Address, B256, U256};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::{BlockNumber, Header, SealedHeader, Transaction};

/// A payment from the beacon chain (EIP-4895).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withdrawal {
    /// Sequence number.
    pub index: u64,
    /// The validator.
    pub validator_index: u64,
    /// Receiver.
    pub address: Address,
    /// Gwei, not wei.
    pub amount: u64,
}

/// A block whose header hash is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// The header with its hash.
    pub header: SealedHeader,
    /// In order of execution.
    pub transactions: Vec<Arc<Transaction>>,
    /// Uncle headers.
    pub ommers: Vec<Header>,
    /// Present from Shanghai on (Ethereum profile).
    pub withdrawals: Option<Vec<Withdrawal>>,
    /// Length of the block's RLP, bytes.
    pub size: u64,
}

impl Block {
    /// The block hash.
    pub const fn hash(&self) -> B256 {
        self.header.hash()
    }

    /// The height.
    pub fn number(&self) -> BlockNumber {
        BlockNumber(self.header.number)
    }
}

/// A block with the senders of its transactions, in the same order.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Deref, Serialize, Deserialize)]
pub struct RecoveredBlock {
    /// The block.
    #[deref]
    pub block: Block,
    /// One address per transaction.
    pub senders: Vec<Address>,
}

/// The canonical chain's tip as one immutable value, replaced after each commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The head block's header.
    pub header: Arc<SealedHeader>,
    /// Sum of difficulties up to and including the head.
    pub total_difficulty: U256,
    /// The last block that consensus will not undo, if the engine knows one.
    pub finalized: Option<BlockNumber>,
    /// The last block that is unlikely to be undone, if the engine knows one.
    pub safe: Option<BlockNumber>,
}

impl Head {
    /// The head's height.
    pub fn number(&self) -> BlockNumber {
        BlockNumber(self.header.number)
    }
}
