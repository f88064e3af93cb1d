//! The transaction pool. Topics `0x0400..`.

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

use super::request;
use crate::RecoveredTransaction;

/// Hands a signed transaction to the pool (`eth_sendRawTransaction`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitTransaction {
    /// Canonical bytes; blob transactions may come with their sidecar.
    pub raw: Bytes,
}
request!(SubmitTransaction => B256, topic 0x0400, SubmitTransactions);

/// Has the pool recover the senders of transactions together that are about to be handed to it one by one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoverSendersAhead {
    /// Canonical bytes of each; those that are malformed are passed over.
    pub raw: Vec<Bytes>,
}
request!(RecoverSendersAhead => (), topic 0x0408, SubmitTransactions);

/// How many transactions wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetPoolStatus;
request!(GetPoolStatus => PoolStatus, topic 0x0401, ReadChain);

/// How many transactions wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// Ready for the next block.
    pub pending: u64,
    /// Waiting for a gap to close.
    pub queued: u64,
}

/// What waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetPoolContent {
    /// Only of this sender.
    pub sender: Option<Address>,
}
request!(GetPoolContent => PoolContent, topic 0x0402, ReadChain);

/// What waits, each list sorted by sender and nonce.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolContent {
    /// Ready for the next block.
    pub pending: Vec<RecoveredTransaction>,
    /// Waiting for a gap to close.
    pub queued: Vec<RecoveredTransaction>,
}

/// A waiting transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetPoolTransaction {
    /// Transaction hash.
    pub hash: B256,
}
request!(GetPoolTransaction => Option<RecoveredTransaction>, topic 0x0403, ReadChain);

/// The nonce that the sender's next transaction needs, pending ones counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetPoolNonce {
    /// Whose.
    pub address: Address,
}
request!(GetPoolNonce => u64, topic 0x0404, ReadChain);

/// Hashes that became pending since a cursor: what pending-transaction filters poll.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetPendingSince {
    /// What the last answer gave; `None` asks for the current cursor only.
    pub cursor: Option<u64>,
}
request!(GetPendingSince => PendingSince, topic 0x0405, ReadChain);

/// Hashes that became pending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingSince {
    /// For the next question.
    pub cursor: u64,
    /// In order of arrival.
    pub hashes: Vec<B256>,
}

/// The canonical bytes of a waiting transaction; blob sidecars are not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetRawPoolTransaction {
    /// Transaction hash.
    pub hash: B256,
}
request!(GetRawPoolTransaction => Option<Bytes>, topic 0x0406, ReadChain);

/// Waits until a submitted transaction is in a block that is the head, where blocks are made for transactions: a client
/// that then asks for its receipt finds it. Answered at once where blocks come at their own times, and otherwise as soon as
/// everything that can be sealed is; three seconds at most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitSealing {
    /// Transaction hash.
    pub hash: B256,
}
request!(AwaitSealing => (), topic 0x0407, SubmitTransactions);

/// Changes the least tip that the pool takes, until the node ends. If it rises, cheaper transactions leave the pool, but for local
/// ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetMinTip {
    /// Wei per gas.
    pub tip: U256,
}
request!(SetMinTip => (), topic 0x0409, Administer);
