//! Changes of the chain since a block.

use alloy_primitives::B256;
use tenon_api::{
    BlockNumber, ChainReader,
    messages::{ChainChanges, GetChainChanges},
};

use super::{
    Answers,
    error::{AnswerError, LimitExceeded},
    repeat_after_reorganisation,
};

impl Answers {
    pub(super) fn changes(&self, request: &GetChainChanges) -> Result<ChainChanges, AnswerError> {
        let generations = &self.store.shared.generations;
        repeat_after_reorganisation(|| generations.together(|| self.changes_once(request)))
    }

    fn changes_once(&self, request: &GetChainChanges) -> Result<ChainChanges, AnswerError> {
        let shared = &self.store.shared;
        let head = self.store.head().number().0;
        let token = shared.generations.observe(head)?;
        let (removed, common) = self.back_to_the_chain(request.since)?;
        let last = head.min(common.saturating_add(request.limit.min(self.limits.chain_changes)));
        let mut added = Vec::new();
        for number in common + 1..=last {
            let Some((hash, _)) = shared.canonical(number)? else { break };
            added.push((BlockNumber(number), hash));
        }
        shared.generations.check(token, head)?;
        Ok(ChainChanges { removed, added })
    }

    /// Non-canonical blocks from `hash` downwards, and the height of the first canonical one.
    fn back_to_the_chain(&self, mut hash: B256) -> Result<(Vec<(BlockNumber, B256)>, u64), AnswerError> {
        let mut removed = Vec::new();
        loop {
            let header = self.store.header(hash)?.ok_or(AnswerError::UnknownBlock)?;
            if self.store.canonical_hash(BlockNumber(header.number))? == Some(hash) {
                return Ok((removed, header.number));
            }
            if removed.len() as u64 >= self.limits.chain_changes {
                return Err(LimitExceeded::BranchLength { max: self.limits.chain_changes }.into());
            }
            removed.push((BlockNumber(header.number), hash));
            hash = header.parent_hash;
        }
    }
}
