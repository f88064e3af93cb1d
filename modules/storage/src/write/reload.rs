//! Reads again from the disk what the store keeps in memory, after a panic in the middle of a write.
//!
//! The disk needs no repair: a batch is written whole or not at all, so it is at a whole block. The memory may lag behind
//! it, or be ahead of it:
//!
//! | In memory | After a panic |
//! |---|---|
//! | head, identity | as before the batch, though the batch may be written |
//! | oldest state, extent of the kept tries | raised before the batch that removes the states and nodes |
//! | cached latest values of accounts and slots | may be outdated if the batch changed them |
//! | list of created trie nodes | lacks those of the batch, and thinning would take them for older ones |
//! | count of blocks since the last sync | lacks those of the batch |
//! | announcement of an unwind to readers | stays, so that no reader gets a block that is half removed |
//!
//! Blocks, headers and trie nodes are cached by hash, and stay.

use std::sync::{Arc, atomic::Ordering};

use tenon_api::StoreError;

use crate::{
    format::meta,
    read::generation::Generations,
    store::{Store, Writer, stored_extent, stored_head},
};

/// Once dropped, no reader waits for the end of a replacement, even if reading from the disk failed or panicked.
struct ReleasedReaders<'a>(&'a Generations);

impl Drop for ReleasedReaders<'_> {
    fn drop(&mut self) {
        self.0.end_interrupted_replacement();
    }
}

impl Store {
    /// Reads head, extents and caches from the disk again.
    ///
    /// # Errors
    /// [`StoreError`] if the disk cannot be read; the memory may then be older than the disk.
    pub(crate) fn reload(&self) -> Result<(), StoreError> {
        let writer = &mut *self.writer.lock();
        let _released = ReleasedReaders(&self.shared.generations);
        self.reload_records(writer)?;
        self.shared.generations.end_interrupted();
        // Does nothing unless an unwind was interrupted before it completed the head's trie.
        self.make_head_whole()
    }

    fn reload_records(&self, writer: &mut Writer) -> Result<(), StoreError> {
        let shared = &self.shared;
        // First, because this cannot fail. Until the head has moved, nothing is cached.
        let writing = shared.state_cache.begin_write();
        writing.clear();
        shared.receipts.clear();
        writer.created_nodes.forget();
        writer.identity = meta::identity(&shared.database)?;
        shared.oldest_state.store(meta::oldest_state(&shared.database)?, Ordering::Release);
        shared.set_trie_extent(stored_extent(&shared.database, shared.trie_extent().checkpoint_every)?);
        if let Some(head) = stored_head(shared)? {
            tracing::warn!(
                number = head.header.number,
                "a write was interrupted; the head was read from the disk again"
            );
            shared.head.store(Arc::new(head));
        }
        drop(writing);
        // Instead of counting the blocks of the interrupted batch.
        shared.database.sync()?;
        writer.count_blocks(0, true);
        Ok(())
    }
}
