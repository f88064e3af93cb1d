//! Writes on the caller's thread.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, atomic::Ordering},
};

use alloy_primitives::U256;
use tenon_api::{BlockCommit, BlockNumber, ChainWriter, Header, RecoveredBlock, StoreError};

use crate::store::Store;

/// The right to write the chain of a store, on the caller's thread. The store gives it out again once it is dropped.
#[derive(derive_more::Debug)]
#[debug("DirectWriter({store:?})")]
pub struct DirectWriter {
    store: Arc<Store>,
}

impl Store {
    /// Gives out the right to write the chain.
    ///
    /// # Errors
    /// [`StoreError::WriterTaken`] until the last writer is dropped.
    pub fn take_writer(self: &Arc<Self>) -> Result<DirectWriter, StoreError> {
        if self.is_writer_taken.swap(true, Ordering::AcqRel) {
            return Err(StoreError::WriterTaken);
        }
        Ok(DirectWriter { store: Arc::clone(self) })
    }
}

impl Drop for DirectWriter {
    fn drop(&mut self) {
        self.store.is_writer_taken.store(false, Ordering::Release);
    }
}

impl DirectWriter {
    /// Changes the chain. A success shows that the writer works again after a panic.
    fn write<T>(&self, write: impl FnOnce(&Store) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let written = self.run(write);
        if written.is_ok() {
            self.store.shared.database.writes.note_chain_write();
        }
        written
    }

    /// Runs a write. If it panics, the store is read from the disk again before the panic continues, so that memory and
    /// disk agree when the caller learns of it.
    pub(super) fn run<T>(&self, write: impl FnOnce(&Store) -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.store.needs_reload.load(Ordering::Acquire) {
            self.reload()?;
        }
        catch_unwind(AssertUnwindSafe(|| write(&self.store))).unwrap_or_else(|panic| {
            self.store.shared.database.writes.note_panic();
            self.store.needs_reload.store(true, Ordering::Release);
            if let Err(error) = self.reload() {
                tracing::error!(%error, "a write was interrupted, and the database can't be read; the next write tries again \
                    to read it");
            }
            resume_unwind(panic)
        })
    }

    fn reload(&self) -> Result<(), StoreError> {
        self.store.reload()?;
        self.store.needs_reload.store(false, Ordering::Release);
        Ok(())
    }
}

impl ChainWriter for DirectWriter {
    fn commit(&self, commit: &Arc<BlockCommit>) -> Result<(), StoreError> {
        self.write(|store| store.commit_next(commit))
    }

    fn group_size(&self, header: &Header) -> usize {
        self.store.group_size(header)
    }

    fn commit_first(&self, commits: &[Arc<BlockCommit>]) -> Result<usize, StoreError> {
        self.write(|store| store.commit_first(commits))
    }

    fn insert_side_block(&self, block: &Arc<RecoveredBlock>, total_difficulty: U256) -> Result<(), StoreError> {
        self.write(|store| store.write_side_block(block, total_difficulty))
    }

    fn keep_side_state(&self, commit: &Arc<BlockCommit>) -> Result<(), StoreError> {
        self.write(|store| store.write_side_state(commit))
    }

    fn check_unwind(&self, number: BlockNumber) -> Result<(), StoreError> {
        self.store.require_unwindable(number)
    }

    fn unwind(&self, number: BlockNumber) -> Result<(), StoreError> {
        self.write(|store| store.unwind_to(number))
    }

    fn reorganise(&self, ancestor: BlockNumber, branch: &[Arc<BlockCommit>]) -> Result<(), StoreError> {
        self.write(|store| store.replace_above(ancestor, branch))
    }

    fn set_finality(&self, finalized: Option<BlockNumber>, safe: Option<BlockNumber>) -> Result<(), StoreError> {
        self.write(|store| store.write_finality(finalized, safe))
    }

    fn flush(&self) -> Result<(), StoreError> {
        // Writes no change of the chain.
        self.run(Store::flush)
    }
}
