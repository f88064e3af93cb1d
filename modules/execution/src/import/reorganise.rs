//! Moving the head to another branch, or just one block on.

use std::sync::Arc;

use tenon_api::{BlockCommit, BlockNumber, InsertOutcome, Receipt, RecoveredBlock, SealedHeader, StoreError};

use super::importer::Importer;
use crate::ImportError;

/// A canonical block that leaves the chain, with the receipts that announcing its logs needs.
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

    fn reorganise(&self, tip: Arc<RecoveredBlock>) -> Result<InsertOutcome, ImportError> {
        let (ancestor, branch) = self.branch_of(tip)?;
        self.engine.verify_reorganisation(ancestor, &self.chain.head(), &*self.chain)?;
        let removed = self.blocks_above(ancestor)?;
        self.writer.unwind(ancestor)?;
        let added = match self.execute_branch(&branch) {
            Ok(added) => added,
            Err(error) => {
                self.restore(ancestor, &removed)?;
                return Err(error);
            }
        };
        let (old, new) = (removed.len(), added.len());
        tracing::info!(%ancestor, removed = old, added = new, "chain reorganised");
        self.announce_removed(&removed);
        self.announce_branch(&added);
        Ok(InsertOutcome::Head { reorganised: removed.iter().map(|removed| removed.block.hash()).collect() })
    }

    /// The blocks from the canonical chain to `tip`, oldest first, and the canonical height that they stand on.
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

    fn execute_branch(&self, branch: &[Arc<RecoveredBlock>]) -> Result<Vec<Arc<BlockCommit>>, ImportError> {
        let mut commits = Vec::with_capacity(branch.len());
        for block in branch {
            let parent = self.parent_of(block)?;
            commits.push(self.execute_and_commit(Arc::clone(block), &parent)?);
            // Of every block, not of the last one alone: this is when a native engine reads the candidates of a gap block,
            // whose state may be pruned when they are needed.
            self.update_finality()?;
        }
        Ok(commits)
    }

    /// Puts the old chain back after a branch turned out to be invalid. Nothing was announced yet.
    fn restore(&self, ancestor: BlockNumber, removed: &[RemovedBlock]) -> Result<(), ImportError> {
        self.writer.unwind(ancestor)?;
        for old in removed.iter().rev() {
            let parent = self.parent_of(&old.block)?;
            self.execute_and_commit(Arc::clone(&old.block), &parent)?;
            self.update_finality()?;
        }
        Ok(())
    }
}
