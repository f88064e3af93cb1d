//! Blocks and their receipts: `docs/spec/rpc-eth.md` 9.

use tenon_sdk::{
    prelude::*,
    shapes::{BlockJson, JsonWriter, block_receipts_json, write_header_of_block},
};

use crate::{Answer, EthContext, block_or_latest, deferred::Deferred, named_block, null, uncles::uncle_seals};

pub(crate) async fn get_block_by_number(context: EthContext, block: BlockNumberParam, full: Deferred<bool>) -> Answer {
    let block = named_block(&context, block, 0).await?;
    let full = full.at(1)?;
    match (block_answer(&context, block, full).await?, block) {
        (Some(json), _) => Ok(json),
        // An error, because `null` would mean that the chain has no block at such a height.
        (None, BlockId::Tag(BlockTag::Finalized)) => Err(Failure::server("finalized block not found")),
        (None, BlockId::Tag(BlockTag::Safe)) => Err(Failure::server("safe block not found")),
        (None, _) => Ok(null()),
    }
}

pub(crate) async fn get_block_by_hash(context: EthContext, hash: B256, full: bool) -> Answer {
    Ok(block_answer(&context, BlockId::hash(hash), full).await?.unwrap_or_else(null))
}

/// A block as JSON; `None` if it does not exist. If hashes of transactions are enough, the transactions are not read.
async fn block_answer(context: &EthContext, block: BlockId, full: bool) -> Result<Option<JsonWriter>, Failure> {
    let profile = crate::profile(context).await?;
    let as_pending = block == BlockId::Tag(BlockTag::Pending);
    if full {
        let Some(stored) = context.call(GetBlock { block }).await? else { return Ok(None) };
        let uncles = uncle_hashes(context, &stored.block.header, stored.block.ommers.len()).await?;
        return Ok(Some(BlockJson { profile, as_pending, uncle_hashes: &uncles }.write(&stored)));
    }
    let Some(outline) = context.call(GetBlockOutline { block }).await? else { return Ok(None) };
    let uncles = uncle_hashes(context, &outline.header, outline.ommers.len()).await?;
    Ok(Some(BlockJson { profile, as_pending, uncle_hashes: &uncles }.write_outline(&outline)))
}

pub(crate) async fn get_header_by_number(context: EthContext, block: BlockNumberParam) -> Answer {
    let block = named_block(&context, block, 0).await?;
    header_answer(&context, block).await
}

pub(crate) async fn get_header_by_hash(context: EthContext, hash: B256) -> Answer {
    header_answer(&context, BlockId::hash(hash)).await
}

async fn header_answer(context: &EthContext, block: BlockId) -> Answer {
    let profile = crate::profile(context).await?;
    let found = context.call(GetHeader { block }).await?;
    let as_pending = block == BlockId::Tag(BlockTag::Pending);
    Ok(found.map_or_else(null, |found| write_header_of_block(profile, &found.header, as_pending)))
}

async fn uncle_hashes(context: &EthContext, header: &SealedHeader, count: usize) -> Result<Vec<B256>, Failure> {
    Ok(uncle_seals(context, header, count).await?.into_iter().map(|seal| seal.hash).collect())
}

pub(crate) async fn transaction_count_by_number(
    context: EthContext,
    block: BlockNumberParam,
) -> Result<Option<Quantity>, Failure> {
    let block = named_block(&context, block, 0).await?;
    transaction_count(&context, block).await
}

pub(crate) async fn transaction_count_by_hash(context: EthContext, hash: B256) -> Result<Option<Quantity>, Failure> {
    transaction_count(&context, BlockId::hash(hash)).await
}

async fn transaction_count(context: &EthContext, block: BlockId) -> Result<Option<Quantity>, Failure> {
    Ok(context.call(CountTransactions { block }).await?.map(Quantity))
}

/// An unknown block is `null`, as in the interface document; the reference fails for an unknown hash.
pub(crate) async fn get_block_receipts(context: EthContext, block: BlockParam) -> Answer {
    let profile = crate::profile(&context).await?;
    let block = block_or_latest(&context, Some(block), 0).await?;
    match context.call(GetBlockReceipts { block }).await? {
        Some(receipts) => Ok(block_receipts_json(profile, &receipts)),
        None => Ok(null()),
    }
}
