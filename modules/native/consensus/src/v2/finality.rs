//! The commit rule (`docs/spec/consensus.md` 8.1).

use std::sync::Arc;

use tenon_api::{BlockNumber, ChainReader, SealedHeader};

use super::{V2Engine, V2Error, extra_of, stored_header};

impl V2Engine {
    /// Returns the last committed block with `head` as the head: of three blocks of consecutive rounds whose last one
    /// is certified, the first is committed. Uses only the certificates inside the chain, so a voting node may know the
    /// block one block earlier.
    ///
    /// # Errors
    /// [`V2Error::MissingBlock`], [`V2Error::Extra`], [`V2Error::Store`].
    pub fn committed(&self, head: &SealedHeader, chain: &dyn ChainReader) -> Result<Option<BlockNumber>, V2Error> {
        let mut passed = Vec::new();
        let mut ancestor: Option<Arc<SealedHeader>> = None;
        let committed = loop {
            let current = ancestor.as_deref().unwrap_or(head);
            // The first block that can be committed follows the switch block; the certificate that commits it is in its
            // third descendant.
            if current.number <= self.consensus().switch_block.saturating_add(3) {
                break None;
            }
            if let Some(known) = self.committed.lock().get(&current.hash()) {
                break *known;
            }
            passed.push(current.hash());
            if let Some(number) = committed_by(current, chain)? {
                break Some(number);
            }
            // No new commit: the parent's still applies.
            ancestor = Some(stored_header(chain, current.parent_hash, current.number - 1)?);
        };
        let mut remembered = self.committed.lock();
        for hash in passed {
            remembered.put(hash, committed);
        }
        Ok(committed)
    }
}

/// The block committed by the certificate inside a block. Each certificate contains the round of the previous block.
fn committed_by(header: &SealedHeader, chain: &dyn ChainReader) -> Result<Option<BlockNumber>, V2Error> {
    let certified = extra_of(header)?.quorum.block;
    let block = stored_header(chain, header.parent_hash, header.number - 1)?;
    let parent_info = extra_of(&block)?.quorum.block;
    if parent_info.round.checked_add(1) != Some(certified.round) {
        return Ok(None);
    }
    let parent = stored_header(chain, block.parent_hash, block.number - 1)?;
    let grandparent_info = extra_of(&parent)?.quorum.block;
    let is_consecutive = grandparent_info.round.checked_add(1) == Some(parent_info.round);
    Ok(is_consecutive.then_some(BlockNumber(grandparent_info.number)))
}
