//! Uncles: `docs/spec/rpc-eth.md` 9. Only blocks from before the merge have them, and only on the Ethereum profile.

use tenon_sdk::{
    prelude::*,
    rlp::{Header as RlpHeader, list_items},
    shapes::write_uncle,
};

use crate::{Answer, EthContext, deferred::Deferred, named_block, null};

/// Data of block and uncle objects beyond the header.
pub(crate) struct UncleSeal {
    pub(crate) hash: B256,
    /// Length of the RLP of a block with this header and an empty body.
    pub(crate) size: u64,
}

/// Hashes of the block's uncles; requests the block's RLP only if it has any.
pub(crate) async fn uncle_seals(
    context: &EthContext,
    header: &SealedHeader,
    count: usize,
) -> Result<Vec<UncleSeal>, Failure> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let raw = context.call(GetRaw::Block(BlockId::hash(header.hash()))).await?;
    let bytes = raw.as_ref().and_then(|list| list.first());
    bytes
        .and_then(|bytes| seals_of(bytes))
        .filter(|seals| seals.len() == count)
        .ok_or_else(|| Failure::server(format!("the uncles of block #{} cannot be read", header.number)))
}

fn seals_of(block: &[u8]) -> Option<Vec<UncleSeal>> {
    let parts = list_items(block)?;
    let uncles = list_items(parts.get(2)?)?;
    let seal = |uncle: &&[u8]| UncleSeal {
        hash: keccak256(uncle),
        // Header, no transactions, no uncles.
        size: RlpHeader { list: true, payload_length: uncle.len() + 2 }.length_with_payload() as u64,
    };
    Some(uncles.iter().map(seal).collect())
}

pub(crate) async fn count_by_hash(context: EthContext, hash: B256) -> Result<Option<Quantity>, Failure> {
    count(&context, BlockId::hash(hash)).await
}

pub(crate) async fn count_by_number(context: EthContext, block: BlockNumberParam) -> Result<Option<Quantity>, Failure> {
    let block = named_block(&context, block, 0).await?;
    count(&context, block).await
}

async fn count(context: &EthContext, block: BlockId) -> Result<Option<Quantity>, Failure> {
    Ok(match find(context, block).await? {
        Found::NoBlock => None,
        Found::NoUncles => Some(Quantity(0)),
        Found::Some(outline) => Some(Quantity(outline.ommers.len() as u64)),
    })
}

/// The uncles of a block.
enum Found {
    NoBlock,
    NoUncles,
    Some(Box<BlockOutline>),
}

/// Requests a block's outline, which has the hash of every transaction, only if its header has uncles.
async fn find(context: &EthContext, block: BlockId) -> Result<Found, Failure> {
    let Some(found) = context.call(GetHeader { block }).await? else { return Ok(Found::NoBlock) };
    if found.header.ommers_hash == EMPTY_OMMERS_HASH {
        return Ok(Found::NoUncles);
    }
    let block = BlockId::hash(found.header.hash());
    Ok(context.call(GetBlockOutline { block }).await?.map_or(Found::NoBlock, |outline| Found::Some(Box::new(outline))))
}

pub(crate) async fn by_hash_and_index(context: EthContext, hash: B256, index: Index) -> Answer {
    by_index(&context, BlockId::hash(hash), index).await
}

pub(crate) async fn by_number_and_index(
    context: EthContext,
    block: BlockNumberParam,
    index: Deferred<Index>,
) -> Answer {
    let block = named_block(&context, block, 0).await?;
    by_index(&context, block, index.at(1)?).await
}

async fn by_index(context: &EthContext, block: BlockId, index: Index) -> Answer {
    let Found::Some(outline) = find(context, block).await? else { return Ok(null()) };
    let profile = crate::profile(context).await?;
    let seals = uncle_seals(context, &outline.header, outline.ommers.len()).await?;
    let position = usize::try_from(index.0).unwrap_or(usize::MAX);
    Ok(match (outline.ommers.get(position), seals.get(position)) {
        (Some(header), Some(seal)) => write_uncle(profile, header, seal.hash, seal.size),
        _ => null(),
    })
}
