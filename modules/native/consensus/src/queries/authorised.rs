//! The addresses authorised to make blocks as of a block (`docs/spec/rpc-node.md` 2.3, 2.4).

use std::sync::Arc;

use tenon_api::{
    Address, BlockId, SealedHeader,
    messages::{Authorised, HeaderVoting},
};

use super::{Queries, QueryError};
use crate::{
    ancestry::required,
    v1::{Snapshot, V1Error, is_gap_block},
    v2::{V2Error, gap_number},
};

impl Queries {
    /// The snapshot as of a block; `None` if there is no such block.
    pub(super) fn authorised(&self, block: BlockId) -> Result<Option<Authorised>, QueryError> {
        let Some(header) = self.header(block)? else { return Ok(None) };
        let authorised = if self.engine.is_v2(header.number) {
            self.candidates_for(header.number)?
        } else {
            self.v1_authorised(&header)?
        };
        Ok(Some(authorised))
    }

    /// [`Queries::authorised`] if it takes only a few reads: for v2 blocks whose candidates are cached.
    pub(super) fn cached_authorised(&self, block: BlockId) -> Result<Option<Option<Authorised>>, QueryError> {
        let Some(header) = self.header(block)? else { return Ok(Some(None)) };
        if !self.engine.is_v2(header.number) {
            return Ok(None);
        }
        let gap = gap_number(self.engine.consensus(), header.number);
        let candidates = self.engine.v2().cached_candidates(gap, &*self.chain)?;
        candidates.map(|candidates| self.at_gap(gap, &candidates).map(Some)).transpose()
    }

    /// The candidates of the gap block for this v2 height. The height alone determines the gap block, not the block at
    /// which the epoch began.
    fn candidates_for(&self, number: u64) -> Result<Authorised, QueryError> {
        let gap = gap_number(self.engine.consensus(), number);
        let candidates = self.engine.v2().candidates(gap, &*self.chain)?;
        self.at_gap(gap, &candidates.ok_or(V2Error::NoCandidates)?)
    }

    fn at_gap(&self, gap: u64, candidates: &[Address]) -> Result<Authorised, QueryError> {
        let header = self.canonical_header(gap)?.ok_or(V2Error::NoGapBlock(gap))?;
        Ok(Authorised { number: gap, hash: header.hash(), signers: candidates.to_vec(), voting: None })
    }

    fn v1_authorised(&self, header: &SealedHeader) -> Result<Authorised, QueryError> {
        let snapshot = self.snapshot(header)?;
        let voting = HeaderVoting {
            recent: self.recent_authors(header)?,
            votes: snapshot.votes(),
            tally: snapshot.tally(),
            opens_epoch: header.number.is_multiple_of(self.engine.consensus().epoch),
        };
        let signers = snapshot.signers().iter().copied().collect();
        Ok(Authorised { number: header.number, hash: header.hash(), signers, voting: Some(voting) })
    }

    fn snapshot(&self, header: &SealedHeader) -> Result<Arc<Snapshot>, V1Error> {
        let snapshot = self.engine.v1().snapshot(header, &*self.chain)?;
        snapshot.ok_or(V1Error::NoCandidates)
    }

    /// The makers of the last blocks: half as many as there are authorised addresses, plus one
    /// (`docs/spec/consensus.md` 2.2). A maker that has left the window does not return to it when the set grows.
    fn recent_authors(&self, header: &SealedHeader) -> Result<Vec<(u64, Address)>, QueryError> {
        let Some(window) = self.window_before(header)? else { return Ok(Vec::new()) };
        let mut oldest = (header.number + 1).saturating_sub(window).max(1);
        let mut makers = vec![(header.number, self.maker(header)?)];
        let mut current = required(&*self.chain, header.parent_hash)?;
        while current.number >= oldest {
            // The set changed after this block.
            if is_gap_block(&self.settings, current.number) {
                let window = self.window_before(&current)?.unwrap_or_default();
                oldest = oldest.max((current.number + 1).saturating_sub(window));
                if current.number < oldest {
                    break;
                }
            }
            makers.push((current.number, self.maker(&current)?));
            current = required(&*self.chain, current.parent_hash)?;
        }
        makers.reverse();
        Ok(makers)
    }

    /// The size of the window before this block is added; `None` for the genesis block.
    fn window_before(&self, header: &SealedHeader) -> Result<Option<u64>, QueryError> {
        if header.number == 0 {
            return Ok(None);
        }
        let parent = required(&*self.chain, header.parent_hash)?;
        Ok(Some(self.snapshot(&parent)?.signers().len() as u64 / 2 + 1))
    }

    fn maker(&self, header: &SealedHeader) -> Result<Address, V1Error> {
        self.engine.v1().author(header)
    }
}
