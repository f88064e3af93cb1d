//! Publishes changes of the chain as events.

use std::sync::Arc;

use tenon_api::{
    BlockCommit, LocatedLog, LogFilter, Receipt, RecoveredBlock,
    messages::{BlockCommitted, BlocksUnwound, LogsChanged, NewHead},
};
use tenon_execution_interface::BranchAnnouncement;

use super::{importer::Importer, reorganise::RemovedBlock};

impl Importer {
    /// Publishes the blocks of a branch that has won, oldest first.
    pub(super) fn announce_branch(&self, added: &[Arc<BlockCommit>]) {
        if self.branch_announcement() == BranchAnnouncement::BlockByBlock {
            return added.iter().for_each(|commit| self.announce_added(commit));
        }
        for commit in added {
            self.bus.publish(BlockCommitted { commit: Arc::clone(commit) });
            self.publish_logs(logs_of(&commit.block, &commit.receipts).collect());
        }
        if let Some(newest) = added.last() {
            self.announce_head(newest);
        }
    }

    /// Publishes a block that has become canonical.
    pub(super) fn announce_added(&self, commit: &Arc<BlockCommit>) {
        self.bus.publish(BlockCommitted { commit: Arc::clone(commit) });
        self.announce_head(commit);
    }

    fn announce_head(&self, commit: &BlockCommit) {
        let block = &commit.block;
        self.bus.publish(NewHead {
            header: Arc::new(block.header.clone()),
            total_difficulty: commit.total_difficulty,
            size: block.size,
        });
        self.publish_logs(logs_of(block, &commit.receipts).collect());
        tracing::debug!(
            number = block.header.number,
            hash = %block.hash(),
            txs = block.transactions.len(),
            gas = block.header.gas_used,
            "block committed"
        );
    }

    /// Publishes blocks that have left the canonical chain, newest first.
    pub(super) fn announce_removed(&self, removed: &[RemovedBlock]) {
        if removed.is_empty() {
            return;
        }
        let blocks = removed.iter().map(|removed| Arc::clone(&removed.block)).collect();
        self.bus.publish(BlocksUnwound { blocks: Arc::new(blocks) });
        let logs = removed.iter().map(|removed| {
            let logs = logs_of(&removed.block, &removed.receipts);
            logs.map(|log| LocatedLog { removed: true, ..log })
        });
        match self.branch_announcement() {
            BranchAnnouncement::BlockByBlock => logs.for_each(|logs| self.publish_logs(logs.collect())),
            BranchAnnouncement::NewestOnly => self.publish_logs(logs.flatten().collect()),
        }
    }

    fn branch_announcement(&self) -> BranchAnnouncement {
        self.executor.family().branch_announcement()
    }

    fn publish_logs(&self, logs: Vec<LocatedLog>) {
        if !logs.is_empty() {
            self.bus.publish(LogsChanged { logs: Arc::new(logs) });
        }
    }
}

/// The located logs of a block.
fn logs_of<'a>(block: &'a RecoveredBlock, receipts: &'a [Receipt]) -> impl Iterator<Item = LocatedLog> + 'a {
    const EVERY: &LogFilter = &LogFilter { addresses: Vec::new(), topics: Vec::new() };
    LocatedLog::of_block(block, receipts, EVERY)
}
