//! Reads again from the disk what the store keeps in memory, after a panic in the middle of a write.
//!
//! The disk needs no repair: a batch is written whole or not at all, so it is at a whole block. The memory may lag behind
//! it, or be ahead of it:
//!
//! | In memory | After a panic |
//! |---|---|
//! | head, identity | as before the batch, though the batch may be written |
//! | oldest state, extent of the kept tries | raised before the batch that removes the states and nodes |
//! | cached latest values of accounts and slots | those that the batch has changed |
//! | list of created trie nodes | lacks those of the batch, and thinning would take them for older ones |
//! | count of blocks since the last sync | lacks those of the batch |
//! | announcement of an unwind to readers | stays, so that none of them reads a block that is half removed |
//!
//! Blocks, headers and trie nodes are cached by hash, and stay.

use std::sync::{Arc, atomic::Ordering};

use tenon_api::StoreError;

use crate::{
    format::meta,
    store::{Store, Writer, stored_extent, stored_head},
};

impl Store {
    /// Brings readers and the writer to what the disk has.
    ///
    /// # Errors
    /// [`StoreError`] if the disk cannot be read; the memory may then be older than the disk.
    pub(crate) fn reload(&self) -> Result<(), StoreError> {
        let writer = &mut *self.writer.lock();
        let reloaded = self.reload_records(writer);
        // Even after an error: readers that wait for the end of a replacement would wait for ever.
        self.shared.generations.end_interrupted();
        reloaded?;
        // Does nothing unless an unwind was interrupted before it completed the head's trie.
        self.make_head_whole()
    }

    fn reload_records(&self, writer: &mut Writer) -> Result<(), StoreError> {
        let shared = &self.shared;
        writer.created_nodes.forget();
        writer.identity = meta::identity(&shared.database)?;
        shared.oldest_state.store(meta::oldest_state(&shared.database)?, Ordering::Release);
        shared.set_trie_extent(stored_extent(&shared.database, shared.trie_extent().checkpoint_every)?);
        let head = stored_head(shared)?;
        // Before the head moves, as in a commit.
        let writing = shared.state_cache.begin_write();
        writing.clear();
        shared.receipts.clear();
        if let Some(head) = head {
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
