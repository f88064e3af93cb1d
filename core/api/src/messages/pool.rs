//! The transaction pool. Topics `0x0400..`.

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

use super::{PoolRefusal, request};
use crate::{RecoveredTransaction, TransactionPayload};

/// Submits a signed transaction to the pool (`eth_sendRawTransaction`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitTransaction {
    /// Canonical bytes; blob transactions may come with their sidecar.
    pub raw: Bytes,
}
request!(SubmitTransaction => Result<B256, PoolRefusal>, topic 0x0400, schema 2, SubmitTransactions);

/// Recovers the senders of transactions in one batch, before they are submitted one by one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoverSendersAhead {
    /// Canonical bytes of each; malformed ones are skipped.
    pub raw: Vec<Bytes>,
}
request!(RecoverSendersAhead => (), topic 0x0408, SubmitTransactions);

/// The numbers of waiting transactions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetPoolStatus;
request!(GetPoolStatus => PoolStatus, topic 0x0401, ReadChain);

/// The numbers of waiting transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// Ready for the next block.
    pub pending: u64,
    /// Waiting for a nonce gap to close.
    pub queued: u64,
}

/// The waiting transactions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetPoolContent {
    /// Only of this sender.
    pub sender: Option<Address>,
}
request!(GetPoolContent => PoolContent, topic 0x0402, ReadChain);

/// The waiting transactions, each list sorted by sender and nonce.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolContent {
    /// Ready for the next block.
    pub pending: Vec<RecoveredTransaction>,
    /// Waiting for a nonce gap to close.
    pub queued: Vec<RecoveredTransaction>,
}

/// The waiting transactions without input, access lists and signatures, each of the same fixed size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetPoolSummary {
    /// Only of this sender.
    pub sender: Option<Address>,
}
request!(GetPoolSummary => PoolSummary, topic 0x040a, ReadChain);

/// The waiting transactions, each list sorted by sender and nonce.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolSummary {
    /// Ready for the next block.
    pub pending: Vec<PooledSummary>,
    /// Waiting for a gap to close.
    pub queued: Vec<PooledSummary>,
}

/// A waiting transaction in short.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PooledSummary {
    /// Its sender.
    pub sender: Address,
    /// Position in its sender's sequence.
    pub nonce: u64,
    /// Receiver; none creates a contract.
    pub to: Option<Address>,
    /// Wei to move.
    pub value: U256,
    /// Maximum gas that it may use.
    pub gas_limit: u64,
    /// Maximum wei per gas that the sender pays: the gas price, or the fee cap.
    pub max_fee_per_gas: U256,
    /// Bytes of call data or creation code.
    pub input_bytes: u64,
    /// Number of list items: addresses and storage keys of the access list, versioned hashes of blobs, and four for
    /// each delegation.
    pub list_items: u64,
}

impl From<&RecoveredTransaction> for PooledSummary {
    fn from(pooled: &RecoveredTransaction) -> Self {
        let transaction = &*pooled.transaction;
        let access: usize = transaction.access_list().iter().map(|item| 1 + item.storage_keys.len()).sum();
        let others = match &transaction.payload {
            TransactionPayload::Blob { blob_versioned_hashes, .. } => blob_versioned_hashes.len(),
            TransactionPayload::SetCode { authorization_list, .. } => 4 * authorization_list.len(),
            TransactionPayload::Legacy { .. }
            | TransactionPayload::AccessList { .. }
            | TransactionPayload::DynamicFee { .. } => 0,
        };
        Self {
            sender: pooled.sender,
            nonce: transaction.nonce,
            to: transaction.to,
            value: transaction.value,
            gas_limit: transaction.gas_limit,
            max_fee_per_gas: transaction.max_fee_per_gas(),
            input_bytes: transaction.input.len() as u64,
            list_items: (access + others) as u64,
        }
    }
}

/// A waiting transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetPoolTransaction {
    /// Transaction hash.
    pub hash: B256,
}
request!(GetPoolTransaction => Option<RecoveredTransaction>, topic 0x0403, ReadChain);

/// The sender's next nonce, pending transactions included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetPoolNonce {
    /// The sender.
    pub address: Address,
}
request!(GetPoolNonce => u64, topic 0x0404, ReadChain);

/// Hashes that became pending since a cursor: what pending-transaction filters poll.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetPendingSince {
    /// Cursor from the last answer; `None` returns the current cursor only.
    pub cursor: Option<u64>,
}
request!(GetPendingSince => PendingSince, topic 0x0405, ReadChain);

/// Hashes that became pending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingSince {
    /// Cursor for the next request.
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

/// Waits until a submitted transaction is in the head or an earlier block, on nodes that make blocks for transactions,
/// so that a client then finds its receipt. Returns at once on nodes that make blocks at fixed times. Otherwise it
/// returns at the latest when the sealer has no sealable transaction left, or after three seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitSealing {
    /// Transaction hash.
    pub hash: B256,
}
request!(AwaitSealing => (), topic 0x0407, SubmitTransactions);

/// Sets the pool's minimum tip, until the node ends. If it rises, cheaper transactions leave the pool, except local
/// ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetMinTip {
    /// Wei per gas.
    pub tip: U256,
}
request!(SetMinTip => (), topic 0x0409, Administer);
