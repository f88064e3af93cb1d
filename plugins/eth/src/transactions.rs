//! Transactions and receipts by hash and by position: `docs/spec/rpc-eth.md` 9.

use tenon_sdk::{
    prelude::*,
    shapes::{JsonWriter, TransactionPlace, receipt_json, write_transaction},
};

use crate::{Answer, EthContext, deferred::Deferred, named_block, null};

/// Capacity for a transaction without its input.
pub(crate) const TRANSACTION_BYTES: usize = 900;

/// A transaction of the chain or the pool.
pub(crate) fn transaction_json(
    profile: Profile,
    transaction: &RecoveredTransaction,
    place: Option<&TransactionPlace>,
) -> JsonWriter {
    let mut json = JsonWriter::with_capacity(TRANSACTION_BYTES + transaction.transaction.input.len() * 2);
    write_transaction(&mut json, profile, &transaction.transaction, transaction.sender, place);
    json
}

pub(crate) async fn get_by_hash(context: EthContext, hash: B256) -> Answer {
    let profile = crate::profile(&context).await?;
    if let Some(located) = context.call(GetTransaction { hash }).await? {
        let place = TransactionPlace::in_block(&located.header, located.index);
        return Ok(transaction_json(profile, &located.transaction, Some(&place)));
    }
    let pooled = context.call(GetPoolTransaction { hash }).await?;
    Ok(pooled.map_or_else(null, |pooled| transaction_json(profile, &pooled, None)))
}

pub(crate) async fn get_by_block_hash_and_index(context: EthContext, hash: B256, index: Index) -> Answer {
    get_in_block(&context, BlockId::hash(hash), index).await
}

pub(crate) async fn get_by_block_number_and_index(
    context: EthContext,
    block: BlockNumberParam,
    index: Deferred<Index>,
) -> Answer {
    let block = named_block(&context, block, 0).await?;
    get_in_block(&context, block, index.at(1)?).await
}

async fn get_in_block(context: &EthContext, block: BlockId, index: Index) -> Answer {
    let profile = crate::profile(context).await?;
    let found = context.call(GetTransactionInBlock { block, index: index.0 }).await?;
    let Some(located) = found else { return Ok(null()) };
    let place = TransactionPlace::in_block(&located.header, located.index);
    Ok(transaction_json(profile, &located.transaction, Some(&place)))
}

pub(crate) async fn get_raw_by_hash(context: EthContext, hash: B256) -> Answer {
    let of_the_chain = context.call(GetRaw::Transaction(hash)).await?.and_then(|list| list.into_iter().next());
    let found = match of_the_chain {
        Some(found) => Some(found),
        None => context.call(GetRawPoolTransaction { hash }).await?,
    };
    Ok(data_or_nothing(found))
}

pub(crate) async fn get_raw_by_block_hash_and_index(context: EthContext, hash: B256, index: Index) -> Answer {
    raw(&context, GetRaw::TransactionInBlock { block: BlockId::hash(hash), index: index.0 }).await
}

pub(crate) async fn get_raw_by_block_number_and_index(
    context: EthContext,
    block: BlockNumberParam,
    index: Deferred<Index>,
) -> Answer {
    let block = named_block(&context, block, 0).await?;
    raw(&context, GetRaw::TransactionInBlock { block, index: index.at(1)?.0 }).await
}

async fn raw(context: &EthContext, request: GetRaw) -> Answer {
    Ok(data_or_nothing(context.call(request).await?.and_then(|list| list.into_iter().next())))
}

/// A missing object has no bytes: `0x`, never `null` (`docs/spec/rpc-eth.md` 4.1).
fn data_or_nothing(found: Option<Bytes>) -> JsonWriter {
    let found = found.unwrap_or_default();
    let mut json = JsonWriter::with_capacity(found.len() * 2 + 4);
    json.data(&found);
    json
}

pub(crate) async fn get_receipt(context: EthContext, hash: B256) -> Answer {
    let profile = crate::profile(&context).await?;
    let Some(located) = context.call(GetReceipt { hash }).await? else { return Ok(null()) };
    Ok(receipt_json(profile, &located))
}
