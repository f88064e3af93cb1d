//! Resolves a caller's block id to its header.

use std::sync::Arc;

use alloy_primitives::B256;
use tenon_api::{BlockId, BlockNumber, BlockTag, BusError, ChainReader, SealedHeader, StoreError};

/// Why a block id has no header. The texts are the reference's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The caller wants a canonical block, and the block with this hash is not.
    #[error("hash is not currently canonical")]
    NotCanonical,
    /// Consensus has finalized no block yet.
    #[error("finalized block not found")]
    NoFinalizedBlock,
    /// Consensus has named no safe block yet.
    #[error("safe block not found")]
    NoSafeBlock,
    /// There is no canonical block of this height.
    #[error("header for number not found")]
    UnknownNumber,
    /// There is no block with this hash.
    #[error("header for hash not found")]
    UnknownHash,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The database does not have the state after a block. The text is the reference's for a trie without root
/// (`docs/spec/rpc-eth.md` 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("missing trie Node {state_root:x} (path )")]
pub struct StateUnavailable {
    /// The block's state root.
    pub state_root: B256,
}

impl From<ResolveError> for BusError {
    fn from(error: ResolveError) -> Self {
        match error {
            ResolveError::Store(error) => error.into(),
            error => Self::failed(error),
        }
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
            let number = chain.head().finalized.ok_or(ResolveError::NoFinalizedBlock)?;
            canonical_header(chain, number)
        }
        BlockId::Tag(BlockTag::Safe) => {
            let head = chain.head();
            let number = head.safe.or(head.finalized).ok_or(ResolveError::NoSafeBlock)?;
            canonical_header(chain, number)
        }
        BlockId::Number(number) => canonical_header(chain, number),
        BlockId::Hash { hash, require_canonical } => {
            let Some(header) = chain.header(hash)? else { return Ok(None) };
            if require_canonical && chain.canonical_hash(BlockNumber(header.number))? != Some(hash) {
                return Err(ResolveError::NotCanonical);
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

/// Like [`resolve_block`], but a missing block is an error with the reference's text.
///
/// # Errors
/// [`ResolveError`].
pub fn require_block(chain: &dyn ChainReader, id: BlockId) -> Result<Arc<SealedHeader>, ResolveError> {
    let missing = match id {
        BlockId::Hash { .. } => ResolveError::UnknownHash,
        BlockId::Tag(_) | BlockId::Number(_) => ResolveError::UnknownNumber,
    };
    resolve_block(chain, id)?.ok_or(missing)
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
            (BlockId::number(10), Err("header for number not found")),
            (hash(canonical, true), Ok(5)),
            (hash(side, false), Ok(5)),
            (hash(side, true), Err("hash is not currently canonical")),
            (hash(B256::ZERO, true), Err("header for hash not found")),
        ];
        for (id, wanted) in cases {
            let found = require_block(&chain, id).map(|header| header.number).map_err(|error| error.to_string());
            assert_eq!(found, wanted.map_err(str::to_owned), "{id:?}");
        }
    }

    #[test]
    fn a_chain_without_finality_returns_an_error() {
        let unfinished = chain(None, None);
        for (tag, wanted) in
            [(BlockTag::Finalized, "finalized block not found"), (BlockTag::Safe, "safe block not found")]
        {
            assert_eq!(resolve_block(&unfinished, BlockId::Tag(tag)).unwrap_err().to_string(), wanted);
        }
        let only_final = chain(Some(2), None);
        assert_eq!(resolve_block(&only_final, BlockId::Tag(BlockTag::Safe)).unwrap().unwrap().number, 2);
    }
}
