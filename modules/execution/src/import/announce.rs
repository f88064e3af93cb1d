//! Telling everybody what happened to the chain.

use std::sync::Arc;

use tenon_api::{
    BlockCommit, LocatedLog, Receipt, RecoveredBlock,
    messages::{BlockCommitted, BlocksUnwound, LogsChanged, NewHead},
};

use super::{importer::Importer, reorganise::RemovedBlock};

impl Importer {
    /// Announces a block that has become canonical.
    pub(super) fn announce_added(&self, commit: &Arc<BlockCommit>) {
        let block = &commit.block;
        self.bus.publish(BlockCommitted { commit: Arc::clone(commit) });
        self.bus.publish(NewHead {
            header: Arc::new(block.header.clone()),
            total_difficulty: commit.total_difficulty,
            size: block.size,
        });
        self.announce_logs(block, &commit.receipts, false);
        tracing::debug!(
            number = block.header.number,
            hash = %block.hash(),
            txs = block.transactions.len(),
            gas = block.header.gas_used,
            "block committed"
        );
    }

    /// Announces blocks that have left the canonical chain, newest first.
    pub(super) fn announce_removed(&self, removed: &[RemovedBlock]) {
        if removed.is_empty() {
            return;
        }
        let blocks = removed.iter().map(|removed| Arc::clone(&removed.block)).collect();
        self.bus.publish(BlocksUnwound { blocks: Arc::new(blocks) });
        for removed in removed {
            self.announce_logs(&removed.block, &removed.receipts, true);
        }
    }

    fn announce_logs(&self, block: &RecoveredBlock, receipts: &[Receipt], removed: bool) {
        let logs = located_logs(block, receipts, removed);
        if !logs.is_empty() {
            self.bus.publish(LogsChanged { logs: Arc::new(logs) });
        }
    }
}

fn located_logs(block: &RecoveredBlock, receipts: &[Receipt], removed: bool) -> Vec<LocatedLog> {
    let located =
        block.transactions.iter().zip(receipts).zip(0u64..).flat_map(|((transaction, receipt), index)| {
            receipt.logs.iter().map(move |log| (log, transaction.hash, index))
        });
    located
        .zip(0u64..)
        .map(|((log, transaction_hash, transaction_index), log_index)| LocatedLog {
            log: log.clone(),
            block_number: block.number(),
            block_hash: block.hash(),
            block_timestamp: block.header.timestamp,
            transaction_hash,
            transaction_index,
            log_index,
            removed,
        })
        .collect()
}
