//! `debug`: traces, encodings and what blocks changed.

use alloy_primitives::{Address, B256, Bytes, U64};
use alloy_rpc_types_eth::{BlockId, BlockNumberOrTag, TransactionRequest};
use alloy_rpc_types_trace::{
    common::TraceResult,
    geth::{GethDebugTracingCallOptions, GethDebugTracingOptions, GethTrace},
};
use jsonrpsee::proc_macros::rpc;

/// Traces, encodings and changes of blocks.
#[rpc(client, namespace = "debug")]
pub trait Debug {
    /// Replays a transaction with a tracer.
    #[method(name = "traceTransaction")]
    async fn trace_transaction(&self, hash: B256, options: Option<GethDebugTracingOptions>) -> RpcResult<GethTrace>;

    /// Replays the transactions of a block with a tracer.
    #[method(name = "traceBlockByNumber")]
    async fn trace_block_by_number(
        &self,
        block: BlockNumberOrTag,
        options: Option<GethDebugTracingOptions>,
    ) -> RpcResult<Vec<TraceResult<GethTrace, String>>>;

    /// Executes a call with a tracer.
    #[method(name = "traceCall")]
    async fn trace_call(
        &self,
        transaction: TransactionRequest,
        block: BlockId,
        options: Option<GethDebugTracingCallOptions>,
    ) -> RpcResult<GethTrace>;

    /// Canonical bytes of a header.
    #[method(name = "getRawHeader")]
    async fn raw_header(&self, block: BlockId) -> RpcResult<Bytes>;

    /// Canonical bytes of a block.
    #[method(name = "getRawBlock")]
    async fn raw_block(&self, block: BlockId) -> RpcResult<Bytes>;

    /// Canonical bytes of the receipts of a block.
    #[method(name = "getRawReceipts")]
    async fn raw_receipts(&self, block: BlockId) -> RpcResult<Vec<Bytes>>;

    /// Canonical bytes of a transaction.
    #[method(name = "getRawTransaction")]
    async fn raw_transaction(&self, hash: B256) -> RpcResult<Bytes>;

    /// Accounts that a block changed.
    #[method(name = "getModifiedAccountsByNumber")]
    async fn modified_accounts_by_number(&self, block: U64) -> RpcResult<Vec<Address>>;

    /// Moves the head back to a block. Later blocks are lost.
    #[method(name = "setHead")]
    async fn set_head(&self, block: U64) -> RpcResult<()>;
}
