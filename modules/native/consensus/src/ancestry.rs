//! Ancestors of a header on any branch.

use std::sync::Arc;

use tenon_api::{B256, BlockNumber, ChainReader, SealedHeader, StateReader, StoreError};

/// Returns the ancestor of `header` at this height, or the header itself at its own height; `None` for a greater
/// height, or if a header in between is not stored. Walks back only until it reaches the canonical chain.
pub(crate) fn ancestor(
    chain: &dyn ChainReader,
    header: &SealedHeader,
    number: u64,
) -> Result<Option<Arc<SealedHeader>>, StoreError> {
    if number > header.number {
        return Ok(None);
    }
    let mut current = Arc::new(header.clone());
    while current.number > number {
        if is_canonical(chain, &current)? {
            let Some(hash) = chain.canonical_hash(BlockNumber(number))? else { return Ok(None) };
            return chain.header(hash);
        }
        match chain.header(current.parent_hash)? {
            Some(parent) => current = parent,
            None => return Ok(None),
        }
    }
    Ok(Some(current))
}

/// Returns whether the state stored for the header's height is the state after it.
pub(crate) fn is_canonical(chain: &dyn ChainReader, header: &SealedHeader) -> Result<bool, StoreError> {
    Ok(chain.canonical_hash(BlockNumber(header.number))? == Some(header.hash()))
}

/// The state after a block of any branch; `None` if it is not stored: the block was not executed, or its state was
/// pruned. Never the state of another block of the same height.
pub(crate) fn state_after(
    chain: &dyn ChainReader,
    block: &SealedHeader,
) -> Result<Option<Arc<dyn StateReader>>, StoreError> {
    match is_canonical(chain, block)? {
        true => chain.state_at(BlockNumber(block.number)).map(Some),
        false => chain.state_of_branch(block),
    }
}

/// A header that must be stored.
pub(crate) fn required(chain: &dyn ChainReader, hash: B256) -> Result<Arc<SealedHeader>, StoreError> {
    chain.header(hash)?.ok_or_else(|| StoreError::UnknownBlock { what: hash.to_string() })
}
