//! The candidates from which an epoch is drawn (`docs/spec/consensus.md` 4.2).

use std::sync::Arc;

use tenon_api::{Address, BlockNumber, ChainReader, SealedHeader};

use super::{V2Engine, V2Error, gap_number};
use crate::{ancestry::ancestor, extra::v1_masternodes};

impl V2Engine {
    /// The ordered candidates of the canonical gap block with this number; `None` if the source has no state.
    ///
    /// # Errors
    /// [`V2Error::NoGapBlock`], [`V2Error::NoSwitchBlock`], [`V2Error::NoCandidates`], [`V2Error::Store`].
    pub fn candidates(&self, gap: u64, chain: &dyn ChainReader) -> Result<Option<Arc<[Address]>>, V2Error> {
        self.candidates_in(gap, chain, &|number| canonical_header(chain, number))
    }

    /// Like [`V2Engine::candidates`], on the branch that ends with `tip`.
    ///
    /// # Errors
    /// Like [`V2Engine::candidates`]; [`V2Error::Store`] also if the state after the branch's gap block is not stored.
    pub(super) fn candidates_below(
        &self,
        tip: &SealedHeader,
        gap: u64,
        chain: &dyn ChainReader,
    ) -> Result<Option<Arc<[Address]>>, V2Error> {
        self.candidates_in(gap, chain, &|number| Ok(ancestor(chain, tip, number)?))
    }

    /// The gap block before the switch is a v1 block: for it, returns the list in the switch block itself. So the first
    /// epochs of v2 use the last list of v1 (4.2, pitfall 2).
    fn candidates_in(
        &self,
        gap: u64,
        chain: &dyn ChainReader,
        header_at: &dyn Fn(u64) -> Result<Option<Arc<SealedHeader>>, V2Error>,
    ) -> Result<Option<Arc<[Address]>>, V2Error> {
        let switch_block = self.consensus().switch_block;
        if gap == gap_number(self.consensus(), switch_block) {
            let header = header_at(switch_block)?.ok_or(V2Error::NoSwitchBlock(switch_block))?;
            let masternodes = v1_masternodes(&header.extra_data);
            if masternodes.is_empty() {
                return Err(V2Error::NoSwitchBlock(switch_block));
            }
            return Ok(Some(masternodes.into()));
        }
        let header = header_at(gap)?.ok_or(V2Error::NoGapBlock(gap))?;
        self.candidates_of(&header, chain)
    }

    /// [`V2Engine::candidates`] if no state has to be read; `None` otherwise.
    ///
    /// # Errors
    /// [`V2Error::NoGapBlock`], [`V2Error::NoSwitchBlock`], [`V2Error::Store`].
    pub fn cached_candidates(&self, gap: u64, chain: &dyn ChainReader) -> Result<Option<Arc<[Address]>>, V2Error> {
        if gap == gap_number(self.consensus(), self.consensus().switch_block) {
            return self.candidates(gap, chain);
        }
        let header = canonical_header(chain, gap)?.ok_or(V2Error::NoGapBlock(gap))?;
        Ok(self.snapshots.lock().get(&header.hash()).map(Arc::clone))
    }

    /// Reads and caches the candidates while the state of a gap block is the newest one, so that a node that keeps
    /// little history still has them when the epoch begins. Does nothing for other blocks (4.2: gap blocks are counted
    /// in block numbers, not in rounds).
    ///
    /// # Errors
    /// [`V2Error::NoCandidates`], [`V2Error::Store`].
    pub fn remember_candidates(&self, head: &SealedHeader, chain: &dyn ChainReader) -> Result<(), V2Error> {
        let consensus = self.consensus();
        let is_gap_block = head.number % consensus.epoch == consensus.epoch - consensus.gap;
        if is_gap_block && head.number > consensus.switch_block {
            self.candidates_of(head, chain)?;
        }
        Ok(())
    }

    fn candidates_of(&self, gap: &SealedHeader, chain: &dyn ChainReader) -> Result<Option<Arc<[Address]>>, V2Error> {
        if let Some(candidates) = self.snapshots.lock().get(&gap.hash()) {
            return Ok(Some(Arc::clone(candidates)));
        }
        let Some(candidates) = self.source.candidates(gap, chain)? else { return Ok(None) };
        if candidates.is_empty() {
            return Err(V2Error::NoCandidates);
        }
        self.snapshots.lock().put(gap.hash(), Arc::clone(&candidates));
        Ok(Some(candidates))
    }
}

pub(super) fn canonical_header(chain: &dyn ChainReader, number: u64) -> Result<Option<Arc<SealedHeader>>, V2Error> {
    match chain.canonical_hash(BlockNumber(number))? {
        Some(hash) => Ok(chain.header(hash)?),
        None => Ok(None),
    }
}
