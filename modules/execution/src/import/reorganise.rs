//! Moves the head to another branch, or by one block.

use std::sync::Arc;

use tenon_api::{
    BlockCommit, BlockNumber, ConsensusError, Head, InsertOutcome, Receipt, RecoveredBlock, SealedHeader, StoreError,
};

use super::{
    ahead::{ChainAhead, Waiting, WaitingBlock},
    importer::Importer,
};
use crate::ImportError;

/// Maximum memory of the blocks of one reorganisation, bytes. Ordinary blocks take some hundred kilobytes each; a
/// longer branch is refused, because it would be held three times: executed, as a batch, and by the engine.
pub(super) const MAX_REORGANISATION_BYTES: usize = 512 << 20;

/// A canonical block that leaves the chain, with its receipts, for publishing its logs.
pub(super) struct RemovedBlock {
    pub(super) block: Arc<RecoveredBlock>,
    pub(super) receipts: Arc<Vec<Receipt>>,
}

impl Importer {
    /// Makes a block with a known parent the head.
    pub(super) fn make_canonical(
        &self,
        block: Arc<RecoveredBlock>,
        parent: &SealedHeader,
    ) -> Result<InsertOutcome, ImportError> {
        if parent.hash() == self.chain.head().header.hash() {
            let commit = Arc::new(self.execute(&*self.chain, block, parent)?);
            self.commit(&commit)?;
            return Ok(InsertOutcome::Head { reorganised: Vec::new() });
        }
        self.reorganise(block)
    }

    /// First executes the whole side branch; then it replaces the other one in one step, on disk and for readers. A
    /// branch with an invalid block changes nothing.
    fn reorganise(&self, tip: Arc<RecoveredBlock>) -> Result<InsertOutcome, ImportError> {
        let (number, hash) = (tip.number(), tip.hash());
        let (ancestor, branch) = self.branch_of(tip)?;
        // The error must name the tip of the branch, which is refused, and not the head that it would replace.
        self.engine
            .verify_reorganisation(ancestor, &self.chain.head(), &*self.chain)
            .map_err(|error| ConsensusError { number, hash, ..error })?;
        let removed = self.blocks_above(ancestor)?;
        let added = self.execute_branch(ancestor, branch)?;
        // A branch is written whole or not at all.
        let written = self.writer.reorganise(ancestor, &added);
        written.or_else(|error| error.committed_despite(&*self.chain, &added).map(drop))?;
        self.follow_up(&added);
        let (old, new) = (removed.len(), added.len());
        tracing::info!(%ancestor, removed = old, added = new, "chain reorganised");
        self.announce_removed(&removed);
        self.announce_branch(&added);
        Ok(InsertOutcome::Head { reorganised: removed.iter().map(|removed| removed.block.hash()).collect() })
    }

    /// The blocks from the canonical chain to `tip`, oldest first, and the canonical height below them.
    fn branch_of(&self, tip: Arc<RecoveredBlock>) -> Result<(BlockNumber, Vec<Arc<RecoveredBlock>>), ImportError> {
        let mut branch = vec![tip];
        loop {
            let Some(lowest) = branch.last() else { return Ok((BlockNumber::GENESIS, branch)) };
            let parent = lowest.header.parent_hash;
            let below = lowest.number().parent().unwrap_or_default();
            if self.chain.canonical_hash(below)? == Some(parent) {
                branch.reverse();
                return Ok((below, branch));
            }
            let unknown = StoreError::UnknownBlock { what: parent.to_string() };
            branch.push(self.chain.block(parent)?.ok_or(unknown)?);
        }
    }

    /// The canonical blocks above a height, newest first.
    pub(super) fn blocks_above(&self, number: BlockNumber) -> Result<Vec<RemovedBlock>, ImportError> {
        let mut blocks = Vec::new();
        let mut hash = self.chain.head().header.hash();
        while let Some(block) = self.chain.block(hash)? {
            if block.number() <= number {
                break;
            }
            let receipts = self.chain.receipts(hash)?.unwrap_or_default();
            hash = block.header.parent_hash;
            blocks.push(RemovedBlock { block, receipts });
        }
        Ok(blocks)
    }

    /// Executes a branch on its common ancestor with the chain, and compares all roots. Writes nothing.
    fn execute_branch(
        &self,
        ancestor: BlockNumber,
        branch: Vec<Arc<RecoveredBlock>>,
    ) -> Result<Vec<Arc<BlockCommit>>, ImportError> {
        let base = self.head_at(ancestor)?;
        let mut waiting = Arc::new(Waiting::default());
        let mut weight = 0_usize;
        for block in branch {
            let parent = waiting.last().map_or_else(|| Arc::clone(&base.header), |below| Arc::clone(below.header()));
            let chain = ChainAhead::beside(&self.chain, &base, Arc::clone(&waiting));
            let executed = WaitingBlock::new(self.execute(&chain, block, &parent)?);
            // Releases the chain's share of the list, which would otherwise be copied to add the block.
            drop(chain);
            weight = weight.saturating_add(executed.weight());
            if weight > self.reorganisation_bytes {
                let (from, number) = (self.chain.head().number(), executed.number());
                return Err(ImportError::LargeReorganisation { ancestor, from, number });
            }
            Arc::make_mut(&mut waiting).push(Arc::new(executed));
        }
        Ok(waiting.iter().map(|executed| Arc::clone(&executed.commit)).collect())
    }

    /// The head as if the canonical block of this height were the newest. Finalized and safe heights are limited to it.
    fn head_at(&self, number: BlockNumber) -> Result<Arc<Head>, ImportError> {
        let unknown = || StoreError::UnknownBlock { what: number.to_string() };
        let hash = self.chain.canonical_hash(number)?.ok_or_else(unknown)?;
        let header = self.chain.header(hash)?.ok_or_else(unknown)?;
        let total_difficulty = self.chain.total_difficulty(hash)?.unwrap_or_default();
        let limit = |height: BlockNumber| height.min(number);
        let head = self.chain.head();
        let (finalized, safe) = (head.finalized.map(limit), head.safe.map(limit));
        Ok(Arc::new(Head { header, total_difficulty, finalized, safe }))
    }

    /// Passes new canonical blocks to the engine, and records its finality.
    pub(super) fn follow_up(&self, added: &[Arc<BlockCommit>]) {
        for commit in added {
            self.engine.observe(&commit.block);
        }
        // For all of them, not only the last one: a native engine reads the candidates of a gap block here, before the state
        // of that block is pruned.
        for commit in added {
            self.engine.observe_head(&commit.block.header, &*self.chain);
        }
        // The blocks are canonical nevertheless, and the next one records finality again.
        if let Err(error) = self.update_finality() {
            tracing::warn!(number = %self.chain.head().number(), %error, "finality not recorded");
        }
    }
}
