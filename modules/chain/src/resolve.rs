//! Resolves a caller's block id to its header.

use std::sync::Arc;

use alloy_primitives::B256;
use tenon_api::{
    BlockId, BlockNumber, BlockTag, BusError, ChainReader, RequestError, SealedHeader, StoreError, UnresolvedBlock,
};

/// Why a block id has no header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The id cannot be resolved to a block.
    #[error(transparent)]
    Unresolved(#[from] UnresolvedBlock),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The database does not have the state after a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the database does not have the state with root {state_root}")]
pub struct StateUnavailable {
    /// The block's state root.
    pub state_root: B256,
}

impl From<ResolveError> for BusError {
    fn from(error: ResolveError) -> Self {
        match error {
            ResolveError::Unresolved(problem) => RequestError::from(problem).into(),
            ResolveError::Store(error) => error.into(),
        }
    }
}

impl From<StateUnavailable> for BusError {
    fn from(StateUnavailable { state_root }: StateUnavailable) -> Self {
        RequestError::StateUnavailable { state_root }.into()
    }
}

/// Returns the header of the block that `id` names, or `None` if there is no such block (`docs/spec/rpc-eth.md` 5).
///
/// `Pending` is the head. `Safe` falls back to the last final block, because a final block is safe.
///
/// # Errors
/// [`ResolveError`], but not for a missing block.
pub fn resolve_block(chain: &dyn ChainReader, id: BlockId) -> Result<Option<Arc<SealedHeader>>, ResolveError> {
    match id {
        BlockId::Tag(BlockTag::Latest | BlockTag::Pending) => Ok(Some(chain.head().header.clone())),
        BlockId::Tag(BlockTag::Earliest) => canonical_header(chain, BlockNumber::GENESIS),
        BlockId::Tag(BlockTag::Finalized) => {
            let number = chain.head().finalized.ok_or(UnresolvedBlock::NoFinalizedBlock)?;
            canonical_header(chain, number)
        }
        BlockId::Tag(BlockTag::Safe) => {
            let head = chain.head();
            let number = head.safe.or(head.finalized).ok_or(UnresolvedBlock::NoSafeBlock)?;
            canonical_header(chain, number)
        }
        BlockId::Number(number) => canonical_header(chain, number),
        BlockId::Hash { hash, require_canonical } => {
            let Some(header) = chain.header(hash)? else { return Ok(None) };
            if require_canonical && chain.canonical_hash(BlockNumber(header.number))? != Some(hash) {
                return Err(UnresolvedBlock::NotCanonical.into());
            }
            Ok(Some(header))
        }
    }
}

fn canonical_header(chain: &dyn ChainReader, number: BlockNumber) -> Result<Option<Arc<SealedHeader>>, ResolveError> {
    let head = chain.head();
    // This needs no read, and the head is requested far more often than any other block.
    if head.number() == number {
        return Ok(Some(head.header.clone()));
    }
    let Some(hash) = chain.canonical_hash(number)? else { return Ok(None) };
    Ok(chain.header(hash)?)
}

/// Like [`resolve_block`], but a missing block is an error.
///
/// # Errors
/// [`ResolveError`].
pub fn require_block(chain: &dyn ChainReader, id: BlockId) -> Result<Arc<SealedHeader>, ResolveError> {
    let missing = match id {
        BlockId::Hash { .. } => UnresolvedBlock::UnknownHash,
        BlockId::Tag(_) | BlockId::Number(_) => UnresolvedBlock::UnknownNumber,
    };
    Ok(resolve_block(chain, id)?.ok_or(missing)?)
}

#[cfg(test)]
mod tests {
    use tenon_api::Header;
    use tenon_memory_chain::MemoryChain;

    use super::*;
    use crate::codec::seal;

    /// Ten headers, each the child of the one before.
    fn chain(finalized: Option<u64>, safe: Option<u64>) -> MemoryChain {
        let chain = MemoryChain::default();
        let mut parent_hash = B256::ZERO;
        for number in 0..10 {
            let header = seal(Header { number, parent_hash, ..Header::default() });
            parent_hash = header.hash();
            chain.push_header(header);
        }
        chain.set_finality(finalized.map(BlockNumber), safe.map(BlockNumber));
        chain
    }

    #[test]
    fn every_kind_of_block_id_finds_its_block_or_returns_an_error() {
        let chain = chain(Some(3), Some(6));
        let canonical = chain.canonical_hash(BlockNumber(5)).unwrap().unwrap();
        let on_another_branch = seal(Header { number: 5, gas_used: 1, ..Header::default() });
        let side = on_another_branch.hash();
        chain.insert_side_header(on_another_branch);
        let hash = |hash, require_canonical| BlockId::Hash { hash, require_canonical };
        let cases = [
            (BlockId::Tag(BlockTag::Latest), Ok(9)),
            (BlockId::Tag(BlockTag::Pending), Ok(9)),
            (BlockId::Tag(BlockTag::Earliest), Ok(0)),
            (BlockId::Tag(BlockTag::Finalized), Ok(3)),
            (BlockId::Tag(BlockTag::Safe), Ok(6)),
            (BlockId::number(9), Ok(9)),
            (BlockId::number(4), Ok(4)),
            (BlockId::number(10), Err(UnresolvedBlock::UnknownNumber)),
            (hash(canonical, true), Ok(5)),
            (hash(side, false), Ok(5)),
            (hash(side, true), Err(UnresolvedBlock::NotCanonical)),
            (hash(B256::ZERO, true), Err(UnresolvedBlock::UnknownHash)),
        ];
        for (id, wanted) in cases {
            let found = require_block(&chain, id).map(|header| header.number);
            assert_eq!(found, wanted.map_err(ResolveError::from), "{id:?}");
        }
    }

    #[test]
    fn a_chain_without_finality_returns_an_error() {
        let unfinished = chain(None, None);
        for (tag, wanted) in
            [(BlockTag::Finalized, UnresolvedBlock::NoFinalizedBlock), (BlockTag::Safe, UnresolvedBlock::NoSafeBlock)]
        {
            assert_eq!(resolve_block(&unfinished, BlockId::Tag(tag)), Err(wanted.into()));
        }
        let only_final = chain(Some(2), None);
        assert_eq!(resolve_block(&only_final, BlockId::Tag(BlockTag::Safe)).unwrap().unwrap().number, 2);
    }
}
