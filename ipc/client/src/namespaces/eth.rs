//! `eth`: the common methods of every chain, in alloy's types.

use std::future::Future;

use alloy_primitives::{Address, B256, Bytes, U64, U256};
use alloy_rpc_types_eth::{
    Block, BlockId, BlockNumberOrTag, FeeHistory, Filter, Header, Log, SyncStatus, Transaction, TransactionReceipt,
    TransactionRequest,
};
use jsonrpsee::{
    core::client::{Error as CallError, Subscription, SubscriptionClientT},
    proc_macros::rpc,
    rpc_params,
};

/// Chain, state and transactions.
#[rpc(client, namespace = "eth")]
pub trait Eth {
    /// Chain id.
    #[method(name = "chainId")]
    async fn chain_id(&self) -> RpcResult<U64>;

    /// Height of the head.
    #[method(name = "blockNumber")]
    async fn block_number(&self) -> RpcResult<U64>;

    /// Progress of synchronising.
    #[method(name = "syncing")]
    async fn syncing(&self) -> RpcResult<SyncStatus>;

    /// Addresses that the node can sign with.
    #[method(name = "accounts")]
    async fn accounts(&self) -> RpcResult<Vec<Address>>;

    /// Balance of an account, wei.
    #[method(name = "getBalance")]
    async fn balance(&self, account: Address, block: BlockId) -> RpcResult<U256>;

    /// Nonce of an account.
    #[method(name = "getTransactionCount")]
    async fn transaction_count(&self, account: Address, block: BlockId) -> RpcResult<U64>;

    /// Code of an account.
    #[method(name = "getCode")]
    async fn code(&self, account: Address, block: BlockId) -> RpcResult<Bytes>;

    /// Storage slot of an account.
    #[method(name = "getStorageAt")]
    async fn storage_at(&self, account: Address, slot: B256, block: BlockId) -> RpcResult<B256>;

    /// Block at a height, with whole transactions or their hashes.
    #[method(name = "getBlockByNumber")]
    async fn block_by_number(&self, block: BlockNumberOrTag, full: bool) -> RpcResult<Option<Block>>;

    /// Block with a hash, with whole transactions or their hashes.
    #[method(name = "getBlockByHash")]
    async fn block_by_hash(&self, hash: B256, full: bool) -> RpcResult<Option<Block>>;

    /// Receipts of a block.
    #[method(name = "getBlockReceipts")]
    async fn block_receipts(&self, block: BlockId) -> RpcResult<Option<Vec<TransactionReceipt>>>;

    /// Transaction, also one that waits in the pool.
    #[method(name = "getTransactionByHash")]
    async fn transaction_by_hash(&self, hash: B256) -> RpcResult<Option<Transaction>>;

    /// Receipt of a transaction.
    #[method(name = "getTransactionReceipt")]
    async fn transaction_receipt(&self, hash: B256) -> RpcResult<Option<TransactionReceipt>>;

    /// Executes a call without changing anything.
    #[method(name = "call")]
    async fn call(&self, transaction: TransactionRequest, block: BlockId) -> RpcResult<Bytes>;

    /// Gas that a transaction needs.
    #[method(name = "estimateGas")]
    async fn estimate_gas(&self, transaction: TransactionRequest, block: BlockId) -> RpcResult<U64>;

    /// Suggested price, wei per gas.
    #[method(name = "gasPrice")]
    async fn gas_price(&self) -> RpcResult<U256>;

    /// Suggested tip, wei per gas.
    #[method(name = "maxPriorityFeePerGas")]
    async fn max_priority_fee_per_gas(&self) -> RpcResult<U256>;

    /// Fees of the `count` blocks up to `newest`, with these percentiles of their tips.
    #[method(name = "feeHistory")]
    async fn fee_history(&self, count: U64, newest: BlockNumberOrTag, percentiles: Vec<f64>) -> RpcResult<FeeHistory>;

    /// Logs that match a filter.
    #[method(name = "getLogs")]
    async fn logs(&self, filter: &Filter) -> RpcResult<Vec<Log>>;

    /// Sends a signed transaction; returns its hash.
    #[method(name = "sendRawTransaction")]
    async fn send_raw_transaction(&self, transaction: Bytes) -> RpcResult<B256>;

    /// Sends a transaction that the node signs; returns its hash.
    #[method(name = "sendTransaction")]
    async fn send_transaction(&self, transaction: TransactionRequest) -> RpcResult<B256>;
}

/// Subscriptions of `eth`.
pub trait EthSubscriptions: SubscriptionClientT {
    /// Headers of new heads.
    fn new_heads(&self) -> impl Future<Output = Result<Subscription<Header>, CallError>> + Send {
        self.subscribe("eth_subscribe", rpc_params!["newHeads"], "eth_unsubscribe")
    }

    /// New logs that match a filter, also those that a reorganisation removes.
    fn new_logs(&self, filter: &Filter) -> impl Future<Output = Result<Subscription<Log>, CallError>> + Send {
        self.subscribe("eth_subscribe", rpc_params!["logs", filter], "eth_unsubscribe")
    }

    /// Hashes of transactions that enter the pool.
    fn new_pending_transactions(&self) -> impl Future<Output = Result<Subscription<B256>, CallError>> + Send {
        self.subscribe("eth_subscribe", rpc_params!["newPendingTransactions"], "eth_unsubscribe")
    }
}

impl<T: SubscriptionClientT> EthSubscriptions for T {}
