//! `txpool`: the transaction pool.

use std::collections::BTreeMap;

use alloy_primitives::{Address, U64};
use alloy_rpc_types_eth::Transaction;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The transaction pool.
#[rpc(client, namespace = "txpool")]
pub trait Txpool {
    /// Counts of transactions.
    #[method(name = "status")]
    async fn pool_status(&self) -> RpcResult<PoolStatus>;

    /// All transactions.
    #[method(name = "content")]
    async fn pool_content(&self) -> RpcResult<PoolContent>;

    /// The transactions of a sender.
    #[method(name = "contentFrom")]
    async fn pool_content_from(&self, sender: Address) -> RpcResult<PoolContentFrom>;

    /// All transactions, one line of text each.
    #[method(name = "inspect")]
    async fn pool_summary(&self) -> RpcResult<PoolSummary>;
}

/// Counts of transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// Those that can be executed next.
    pub pending: U64,
    /// Those that wait for an earlier nonce.
    pub queued: U64,
}

/// Transactions of the pool by sender and nonce. Senders are spelled as the node spells addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "T: Serialize + DeserializeOwned")]
pub struct BySender<T> {
    /// Those that can be executed next.
    pub pending: BTreeMap<String, BTreeMap<u64, T>>,
    /// Those that wait for an earlier nonce.
    pub queued: BTreeMap<String, BTreeMap<u64, T>>,
}

/// All transactions of the pool.
pub type PoolContent = BySender<Transaction>;
/// A line of text for every transaction of the pool.
pub type PoolSummary = BySender<String>;

/// The transactions of a sender by nonce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolContentFrom {
    /// Those that can be executed next.
    pub pending: BTreeMap<u64, Transaction>,
    /// Those that wait for an earlier nonce.
    pub queued: BTreeMap<u64, Transaction>,
}
