//! From the ways in which a caller names a block to its header.

use std::sync::Arc;

use tenon_api::{BlockId, BlockNumber, BlockTag, ChainReader, Failure, SealedHeader};

/// Finds the header that `id` names, none when there is no such block (`spec/rpc-eth.md` 5).
///
/// `Pending` is the head. `Safe` falls back to the last final block, as what is final is safe.
///
/// # Errors
/// `hash is not currently canonical` when that is required and not so, `finalized block not found` and
/// `safe block not found` when consensus has named none yet, and what the database says when it fails.
pub fn resolve_block(chain: &dyn ChainReader, id: BlockId) -> Result<Option<Arc<SealedHeader>>, Failure> {
    match id {
        BlockId::Tag(BlockTag::Latest | BlockTag::Pending) => Ok(Some(chain.head().header.clone())),
        BlockId::Tag(BlockTag::Earliest) => canonical_header(chain, BlockNumber::GENESIS),
        BlockId::Tag(BlockTag::Finalized) => {
            let number = chain.head().finalized.ok_or_else(|| Failure::server("finalized block not found"))?;
            canonical_header(chain, number)
        }
        BlockId::Tag(BlockTag::Safe) => {
            let head = chain.head();
            let number = head.safe.or(head.finalized).ok_or_else(|| Failure::server("safe block not found"))?;
            canonical_header(chain, number)
        }
        BlockId::Number(number) => canonical_header(chain, number),
        BlockId::Hash { hash, require_canonical } => {
            let Some(header) = chain.header(hash)? else { return Ok(None) };
            if require_canonical && chain.canonical_hash(BlockNumber(header.number))? != Some(hash) {
                return Err(Failure::server("hash is not currently canonical"));
            }
            Ok(Some(header))
        }
    }
}

fn canonical_header(chain: &dyn ChainReader, number: BlockNumber) -> Result<Option<Arc<SealedHeader>>, Failure> {
    let head = chain.head();
    // The head is at hand; readers ask for it far more often than for any other block.
    if head.number() == number {
        return Ok(Some(head.header.clone()));
    }
    let Some(hash) = chain.canonical_hash(number)? else { return Ok(None) };
    Ok(chain.header(hash)?)
}

/// As [`resolve_block`], but a block that does not exist is a failure in the reference's words.
///
/// # Errors
/// `header for number not found`, `header for hash not found`, and those of [`resolve_block`].
pub fn require_block(chain: &dyn ChainReader, id: BlockId) -> Result<Arc<SealedHeader>, Failure> {
    let missing = match id {
        BlockId::Hash { .. } => "header for hash not found",
        BlockId::Tag(_) | BlockId::Number(_) => "header for number not found",
    };
    resolve_block(chain, id)?.ok_or_else(|| Failure::server(missing))
}
