//! Blocks and their receipts: `docs/spec/rpc-eth.md` 9.

use tenon_sdk::{
    prelude::*,
    shapes::{BlockJson, block_receipts_json},
};

use crate::{Answer, EthContext, block_or_latest, deferred::Deferred, named_block, null, uncles::uncle_seals};

pub(crate) async fn get_block_by_number(context: EthContext, block: BlockNumberParam, full: Deferred<bool>) -> Answer {
    let block = named_block(&context, block, 0).await?;
    let full = full.at(1)?;
    let stored = context.call(GetBlock { block }).await?;
    match (stored, block) {
        (Some(stored), block) => block_answer(&context, &stored, full, block == BlockId::Tag(BlockTag::Pending)).await,
        // These two exist or do not; a null would say that the chain has no such height.
        (None, BlockId::Tag(BlockTag::Finalized)) => Err(Failure::server("finalized block not found")),
        (None, BlockId::Tag(BlockTag::Safe)) => Err(Failure::server("safe block not found")),
        (None, _) => Ok(null()),
    }
}

pub(crate) async fn get_block_by_hash(context: EthContext, hash: B256, full: bool) -> Answer {
    match context.call(GetBlock { block: BlockId::hash(hash) }).await? {
        Some(stored) => block_answer(&context, &stored, full, false).await,
        None => Ok(null()),
    }
}

async fn block_answer(context: &EthContext, stored: &StoredBlock, full: bool, as_pending: bool) -> Answer {
    let profile = crate::profile(context).await?;
    let uncles: Vec<B256> = uncle_seals(context, &stored.block).await?.iter().map(|seal| seal.hash).collect();
    let shape = BlockJson { profile, full_transactions: full, as_pending, uncle_hashes: &uncles };
    Ok(shape.write(stored))
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
    let stored = context.call(GetBlock { block }).await?;
    Ok(stored.map(|stored| Quantity(stored.block.transactions.len() as u64)))
}

/// An unknown number is `null` everywhere; an unknown hash is an error of the reference.
pub(crate) async fn get_block_receipts(context: EthContext, block: BlockParam) -> Answer {
    let profile = crate::profile(&context).await?;
    let block = block_or_latest(&context, Some(block), 0).await?;
    match context.call(GetBlockReceipts { block }).await? {
        Some(receipts) => Ok(block_receipts_json(profile, &receipts)),
        None if profile == Profile::Native && matches!(block, BlockId::Hash { .. }) => {
            Err(Failure::server("header for hash not found"))
        }
        None => Ok(null()),
    }
}
