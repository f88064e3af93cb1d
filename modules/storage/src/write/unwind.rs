//! Removes blocks from the chain.

use std::{collections::BTreeSet, sync::Arc};

use alloy_primitives::B256;
use tenon_api::{BlockNumber, Head, StoreError};

use crate::{
    database::{Batch, cursor_status},
    error::corrupt,
    format::{columns::Column, keys, meta, records},
    read::{
        shared::Shared,
        state::{ACCOUNTS, SLOTS, version_at},
    },
    store::Store,
    write::{
        commit::log_prefixes,
        pending::Pending,
        side_blocks::write_removed_block,
        whole::{require_trie, store_tries_of_removed},
    },
};

impl Store {
    /// Whether the chain can be moved back to this block.
    pub(crate) fn require_unwindable(&self, target: BlockNumber) -> Result<(), StoreError> {
        if target > self.shared.head.load_full().number() {
            return Err(StoreError::UnknownBlock { what: target.to_string() });
        }
        let oldest = BlockNumber(self.shared.oldest_state());
        if target < oldest {
            return Err(StoreError::Pruned { number: target, oldest });
        }
        require_trie(&self.shared, target.0)
    }

    /// Removes blocks, newest first, each in a batch of its own: at any instant the database is at a whole block, and
    /// no batch grows with the distance. If the trie of the new head has left the window, it is computed at the end, or
    /// when the database is opened again.
    pub(crate) fn unwind_to(&self, target: BlockNumber) -> Result<(), StoreError> {
        let mut writer = self.writer.lock();
        self.require_unwindable(target)?;
        let head = self.shared.head.load_full().number();
        if target == head {
            return Ok(());
        }
        writer.created_nodes.forget();
        store_tries_of_removed(&self.shared, self.removed_with_state(target.0, head.0))?;
        let _unwinding = self.shared.generations.unwind_to(target.0);
        let writing = self.shared.state_cache.begin_write();
        let outcome = (target.0 + 1..=head.0).rev().try_for_each(|number| self.remove_head(number));
        writing.clear();
        outcome?;
        self.make_head_whole()?;
        tracing::info!(from = head.0, to = target.0, "chain unwound");
        Ok(())
    }

    /// Removes the head block.
    fn remove_head(&self, number: u64) -> Result<(), StoreError> {
        let shared = &self.shared;
        let head = shared.head.load_full();
        let hash = head.header.hash();
        let mut batch = shared.database.batch();
        remove_block(shared, &mut batch, &mut Pending::of_one_block(), number, hash)?;
        let parent = head_at_most(shared, &head, number - 1, head.header.parent_hash)?;
        meta::set_head(&mut batch, &parent)?;
        batch.write(false)?;
        shared.receipts.remove(&hash);
        shared.head.store(Arc::new(parent));
        Ok(())
    }
}

/// The head after the blocks above `number` were removed.
pub(crate) fn head_at_most(shared: &Shared, head: &Head, number: u64, hash: B256) -> Result<Head, StoreError> {
    let missing = || corrupt(format!("header of block {number} ({hash})"));
    let (header, total_difficulty) = shared.read_header(number, hash)?.ok_or_else(missing)?;
    let limit = |height: BlockNumber| height.min(BlockNumber(number));
    Ok(Head {
        header: Arc::new(header),
        total_difficulty,
        finalized: head.finalized.map(limit),
        safe: head.safe.map(limit),
    })
}

/// Removes everything that the newest canonical block has added to the chain.
pub(crate) fn remove_block(
    shared: &Shared,
    batch: &mut Batch<'_>,
    pending: &mut Pending,
    number: u64,
    hash: B256,
) -> Result<(), StoreError> {
    write_removed_block(shared, batch, number, hash)?;
    meta::note_removed(batch, number)?;
    restore_state(shared, batch, pending, number)?;
    remove_logs(shared, batch, number)?;
    let block = shared.block(hash)?.ok_or_else(|| corrupt(format!("body of block {number} ({hash})")))?;
    for transaction in &block.transactions {
        forget_place(shared, batch, pending, transaction.hash, number)?;
    }
    batch.delete(Column::Receipts, keys::block(number, hash))?;
    batch.delete(Column::Canonical, keys::number(number))
}

/// Removes a transaction of the block from the index, or restores its earlier position.
fn forget_place(
    shared: &Shared,
    batch: &mut Batch<'_>,
    pending: &mut Pending,
    hash: B256,
    number: u64,
) -> Result<(), StoreError> {
    if pending.place_of(shared, hash)?.is_none_or(|(height, _)| height != number) {
        return Ok(());
    }
    let earlier = keys::earlier_place(hash, number);
    let Some(record) = shared.database.get(Column::Transactions, &earlier)? else {
        pending.place(hash, None);
        return batch.delete(Column::Transactions, hash);
    };
    let damaged = || corrupt(format!("earlier place of transaction {hash}"));
    pending.place(hash, Some(records::decode_location(&record).ok_or_else(damaged)?));
    batch.put(Column::Transactions, hash, record)?;
    batch.delete(Column::Transactions, earlier)
}

/// Restores the block's accounts and slots to their values before it, and removes its versions of them.
fn restore_state(shared: &Shared, batch: &mut Batch<'_>, pending: &mut Pending, number: u64) -> Result<(), StoreError> {
    let changes = shared.changes(number)?.ok_or_else(|| corrupt(format!("changes of block {number}")))?;
    for address in &changes.accounts {
        restore(shared, batch, ACCOUNTS, address.as_slice(), number)?;
    }
    for (address, slots) in &changes.slots {
        for slot in slots {
            let has_value = restore(shared, batch, SLOTS, &keys::slot(*address, *slot), number)?;
            pending.slot(*address, *slot, has_value);
        }
    }
    batch.delete(Column::Changes, keys::number(number))
}

/// Restores a key to its value before the block; returns whether it had one.
fn restore(
    shared: &Shared,
    batch: &mut Batch<'_>,
    (latest, history): (Column, Column),
    key: &[u8],
    number: u64,
) -> Result<bool, StoreError> {
    let before = |changed, value: &[u8]| (records::encode_latest(changed, value), !value.is_empty());
    let before = version_at(shared, history, key, number - 1, before)?;
    let has_value = before.as_ref().is_some_and(|(_, has_value)| *has_value);
    match before {
        Some((record, _)) => batch.put(latest, key, record)?,
        // It did not exist before, or its tombstone has been pruned.
        None => batch.delete(latest, key)?,
    }
    batch.delete(history, keys::version(key, number))?;
    Ok(has_value)
}

/// Removes the block's logs and their index entries.
fn remove_logs(shared: &Shared, batch: &mut Batch<'_>, number: u64) -> Result<(), StoreError> {
    let mut prefixes = BTreeSet::new();
    let end = keys::log(number + 1, 0);
    let mut cursor = shared.database.range_cursor(Column::Logs, &keys::log(number, 0), Some(&end))?;
    while let Some((key, record)) = cursor.item() {
        let stored = records::decode_log(record).ok_or_else(|| corrupt(format!("logs of block {number}")))?;
        prefixes.extend(log_prefixes(&stored.log));
        batch.delete(Column::Logs, key)?;
        cursor.next();
    }
    cursor_status(&cursor)?;
    for prefix in prefixes {
        batch.delete(Column::LogIndex, keys::log_index(&prefix, number))?;
    }
    Ok(())
}
