//! How the pool's actor applies changes of the chain.

use std::{sync::Arc, time::Instant};

use tenon_api::{Address, BlockCommit, Head, RecoveredBlock, StoreError};
use tenon_txpool_interface::Source;

use crate::{Pool, sender::AccountView, state::Changes};

/// Maximum number of re-reads if the head moves while the accounts are read, which takes microseconds.
const RESYNC_ATTEMPTS: u32 = 16;

impl Pool {
    /// After an error the pool is a block behind; the next event catches up.
    pub(crate) fn note(&self, outcome: Result<(), StoreError>) {
        if let Err(error) = outcome {
            tracing::warn!(%error, "the pool could not be updated to the new head; it tries again with the next block");
        }
    }

    /// A block on top of the pool's head needs no reads: the commit lists the changed accounts. Any other block, of
    /// another branch for instance, makes the pool read the head again.
    pub(crate) fn on_committed(&self, commit: &BlockCommit) -> Result<(), StoreError> {
        let maintenance = self.inner.maintenance.lock();
        let known = self.inner.state.read().head();
        let header = &commit.block.header;
        if header.hash() == known.hash {
            return Ok(());
        }
        if header.parent_hash != known.hash {
            drop(maintenance);
            return self.catch_up();
        }
        let mut changes = Changes::default();
        let head = self.inner.pool_head(header);
        self.inner.state.write().apply_commit(commit, head, Instant::now(), &mut changes);
        drop(maintenance);
        self.inner.announce(changes);
        self.inner.update_sponsored_costs()
    }

    /// Transactions of blocks that lost to another branch return to the pool. Those of blocks that an operator removed
    /// (`debug_setHead`) do not, because a sealer would include them again immediately.
    pub(crate) fn on_unwound(&self, blocks: &[Arc<RecoveredBlock>]) -> Result<(), StoreError> {
        self.resync()?;
        let Some(oldest) = blocks.last() else { return Ok(()) };
        if self.inner.chain.head().header.hash() == oldest.header.parent_hash {
            return Ok(());
        }
        for block in blocks.iter().rev() {
            for (transaction, sender) in block.transactions.iter().zip(&block.senders) {
                self.inner.senders.remember(transaction, *sender);
            }
            for transaction in &block.transactions {
                let size = tenon_chain::encode_transaction(transaction).len() as u64;
                let back = self.inner.check_and_insert(transaction, size, None, Source::Reorganisation);
                if let Err(error) = back {
                    tracing::debug!(%error, hash = %transaction.hash, "a transaction of a removed block was not \
                        accepted again");
                }
            }
        }
        Ok(())
    }

    /// Reads the head again unless it is the one that the pool applied last.
    pub(crate) fn catch_up(&self) -> Result<(), StoreError> {
        let known = self.inner.state.read().head();
        if self.inner.chain.head().header.hash() == known.hash { Ok(()) } else { self.resync() }
    }

    /// Reads the accounts of all senders again, outside the pool's lock. Senders that arrive during the reads bring
    /// their accounts with them. If the head moves during the reads too, those accounts are newer than the ones read
    /// here and must not be overwritten, so everything is read again.
    pub(crate) fn resync(&self) -> Result<(), StoreError> {
        let _maintenance = self.inner.maintenance.lock();
        let mut changes = Changes::default();
        for attempt in 1..=RESYNC_ATTEMPTS {
            let head = self.inner.chain.head();
            let accounts = self.accounts_at(&head)?;
            let mut state = self.inner.state.write();
            let has_moved = self.inner.chain.head().header.hash() != head.header.hash();
            // The last attempt is always applied: the event of the block that moved the head will correct it.
            if !has_moved || attempt == RESYNC_ATTEMPTS {
                state.resync(self.inner.pool_head(&head.header), &accounts, Instant::now(), &mut changes);
                break;
            }
        }
        self.inner.announce(changes);
        self.inner.update_sponsored_costs()
    }

    /// Rebuilds the pool's indices, which a panic may have left half changed.
    pub(crate) fn rebuild_indices(&self) {
        let mut changes = Changes::default();
        self.inner.state.write().rebuild_indices(Instant::now(), &mut changes);
        self.inner.announce(changes);
    }

    /// The accounts of all senders after a block.
    fn accounts_at(&self, head: &Head) -> Result<Vec<(Address, AccountView)>, StoreError> {
        let addresses = self.inner.state.read().addresses();
        let state = self.inner.chain.state_at(head.number())?;
        let view = |address| Ok((address, AccountView::new(state.account(address)?.as_ref(), head.header.number)));
        addresses.into_iter().map(view).collect()
    }
}
