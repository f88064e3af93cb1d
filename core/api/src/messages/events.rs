//! Events. Their topics begin at [`Topic::FIRST_EVENT`](crate::Topic::FIRST_EVENT).

use std::sync::Arc;

use alloy_primitives::U256;
use serde::{Deserialize, Serialize};

use super::{SyncStatus, event};
use crate::{BlockCommit, LocatedLog, RecoveredBlock, RecoveredTransaction, SealedHeader};

/// A block was committed; contains all its changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockCommitted {
    /// What the block changed.
    pub commit: Arc<BlockCommit>,
}
event!(BlockCommitted, topic 0x8001, ReadChain);

/// A block became the head. Announced for every block of a new branch, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewHead {
    /// Its header.
    pub header: Arc<SealedHeader>,
    /// Sum of difficulties up to and including it.
    pub total_difficulty: U256,
    /// Length of the block's RLP, bytes.
    pub size: u64,
}
event!(NewHead, topic 0x8002, ReadChain);

/// Logs joined the canonical chain, or left it (`removed`). One event per block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogsChanged {
    /// In order of emission.
    pub logs: Arc<Vec<LocatedLog>>,
}
event!(LogsChanged, topic 0x8003, ReadChain);

/// A transaction became pending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionPending {
    /// The transaction.
    pub transaction: RecoveredTransaction,
}
event!(TransactionPending, topic 0x8004, ReadChain);

/// Synchronisation began, progressed or ended (`None`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncChanged {
    /// Progress.
    pub status: Option<SyncStatus>,
}
event!(SyncChanged, topic 0x8005, ReadNode);

/// Blocks left the canonical chain; their transactions may return to the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlocksUnwound {
    /// Newest first.
    pub blocks: Arc<Vec<Arc<RecoveredBlock>>>,
}
event!(BlocksUnwound, topic 0x8006, ReadChain);
