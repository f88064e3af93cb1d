//! Logs of pooled transactions, for ranges that end at `pending`.
//!
//! There is no pending block, so the pool's executable transactions are simulated on the head, sender by sender in the
//! order of nonces, as far as their gas fits into a block. Prices are omitted: a transaction's logs rarely depend on
//! them, and an unaffordable one would end the simulation. If the simulation refuses a transaction, each sender's
//! transactions are simulated alone, and those of refused senders have no logs. If the pool is stopped there are no
//! pending logs, and the range ends at the head.

use tenon_sdk::{prelude::*, shapes::pooled_bytes};

use crate::EthContext;

/// Maximum number of transactions that are simulated.
const MAX_TRANSACTIONS: usize = 500;

/// The pool's matching logs, without positions.
pub(crate) async fn find(context: &EthContext, filter: &LogFilter) -> Result<Vec<Log>, Failure> {
    let head = context.call(GetHead).await?;
    // The module `pool` may be stopped.
    let Ok(PoolSummary { pending: summary, .. }) = context.call(GetPoolSummary { sender: None }).await else {
        return Ok(Vec::new());
    };
    let mut gas_left = head.header.gas_limit;
    let fits = |pooled: &&PooledSummary| match gas_left.checked_sub(pooled.gas_limit) {
        Some(left) => {
            gas_left = left;
            true
        }
        None => false,
    };
    let chosen: Vec<PooledSummary> = summary.iter().take(MAX_TRANSACTIONS).take_while(fits).cloned().collect();
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    let mut by_sender = Vec::new();
    // Counted before any transaction is loaded, and for the copies in the simulation.
    let _memory = context.hold(2 * chosen.iter().map(pooled_bytes).sum::<usize>())?;
    for of_sender in chosen.chunk_by(|left, right| left.sender == right.sender) {
        let Some(first) = of_sender.first() else { continue };
        let content = context.call(GetPoolContent { sender: Some(first.sender) }).await?;
        // A transaction added since the summary is not in the reservation.
        by_sender.push(content.pending.iter().take(of_sender.len()).map(call_of).collect::<Vec<_>>());
    }
    let base = BlockId::hash(head.header.hash());
    if let Some(logs) = simulate(context, filter, base, by_sender.concat()).await? {
        return Ok(logs);
    }
    let mut logs = Vec::new();
    for calls in by_sender {
        logs.extend(simulate(context, filter, base, calls).await?.unwrap_or_default());
    }
    Ok(logs)
}

/// The matching logs of transactions in a block after `base`; `None` if the simulation refuses one of them.
///
/// # Errors
/// A limit of the node was exceeded. Reported, because the answer would silently lack logs.
async fn simulate(
    context: &EthContext,
    filter: &LogFilter,
    base: BlockId,
    calls: Vec<CallRequest>,
) -> Result<Option<Vec<Log>>, Failure> {
    let block = BlockToSimulate { calls, ..BlockToSimulate::default() };
    let simulation = Simulate { base, blocks: vec![block], traces_transfers: false, validates: false };
    let simulated = match context.call(simulation).await.or_failure() {
        Err(failure) if failure.code == FailureCode::LIMIT_EXCEEDED => return Err(failure),
        Err(_) => return Ok(None),
        Ok(simulated) => simulated,
    };
    let logs = simulated.into_iter().flat_map(|block| block.calls).flat_map(|call| call.logs).map(|log| log.log);
    Ok(Some(logs.filter(|log| filter.matches(log)).collect()))
}

/// A pooled transaction as a call without gas price.
fn call_of(pooled: &RecoveredTransaction) -> CallRequest {
    let transaction = &pooled.transaction;
    let access_list = transaction.access_list();
    let (blobs, delegations) = match &transaction.payload {
        TransactionPayload::Blob { blob_versioned_hashes, .. } => (Some(blob_versioned_hashes.clone()), None),
        TransactionPayload::SetCode { authorization_list, .. } => (None, Some(authorization_list.clone())),
        TransactionPayload::Legacy { .. }
        | TransactionPayload::AccessList { .. }
        | TransactionPayload::DynamicFee { .. } => (None, None),
    };
    CallRequest {
        from: Some(pooled.sender),
        to: transaction.to,
        gas: Some(transaction.gas_limit),
        value: Some(transaction.value),
        nonce: Some(transaction.nonce),
        input: transaction.input.clone(),
        access_list: (!access_list.is_empty()).then(|| access_list.to_vec()),
        blob_versioned_hashes: blobs,
        authorization_list: delegations,
        ..CallRequest::default()
    }
}
