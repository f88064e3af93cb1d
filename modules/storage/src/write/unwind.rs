//! How blocks are taken off the chain again.

use std::{collections::BTreeSet, sync::Arc};

use alloy_primitives::B256;
use tenon_api::{BlockNumber, Head, StoreError};

use crate::{
    database::Batch,
    format::{columns::Column, keys, meta, records},
    read::{
        shared::{Shared, corrupt, cursor_status},
        state::{ACCOUNTS, SLOTS, version_at},
    },
    store::Store,
    write::{aside::keep_what_stays, commit::log_prefixes},
};

impl Store {
    /// Takes blocks off, newest first, each in a batch of its own: stopped at any instant, the database stands at
    /// a whole block, and no batch grows with the distance.
    pub(crate) fn unwind_to(&self, target: BlockNumber) -> Result<(), StoreError> {
        let _writer = self.writer.lock();
        let head = self.shared.head.load_full().number();
        if target > head {
            return Err(StoreError::UnknownBlock { what: target.to_string() });
        }
        let oldest = self.shared.oldest_state();
        if target.0 < oldest {
            return Err(StoreError::Pruned { number: target, oldest: BlockNumber(oldest) });
        }
        if target == head {
            return Ok(());
        }
        let _unwinding = self.shared.generations.unwind_to(target.0);
        let writing = self.shared.known.write();
        let outcome = (target.0 + 1..=head.0).rev().try_for_each(|number| self.take_off_head(number));
        writing.forget_all();
        outcome?;
        tracing::info!(from = head.0, to = target.0, "chain unwound");
        Ok(())
    }

    /// Takes the head block off.
    fn take_off_head(&self, number: u64) -> Result<(), StoreError> {
        let shared = &self.shared;
        let head = shared.head.load_full();
        let hash = head.header.hash();
        let mut batch = shared.database.batch();
        keep_what_stays(shared, &mut batch, number, hash)?;
        restore_state(shared, &mut batch, number)?;
        remove_logs(shared, &mut batch, number)?;
        let block = shared.block(hash)?.ok_or_else(|| corrupt(format!("body of block {number} ({hash})")))?;
        for transaction in &block.transactions {
            forget_place(shared, &mut batch, transaction.hash, number)?;
        }
        batch.delete(Column::Receipts, keys::block(number, hash))?;
        batch.delete(Column::Canonical, keys::number(number))?;

        let parent_hash = head.header.parent_hash;
        let missing = || corrupt(format!("header of block {} ({parent_hash})", number - 1));
        let (header, total_difficulty) = shared.read_header(number - 1, parent_hash)?.ok_or_else(missing)?;
        let limit = |height: BlockNumber| height.min(BlockNumber(number - 1));
        let parent = Head {
            header: Arc::new(header),
            total_difficulty,
            finalized: head.finalized.map(limit),
            safe: head.safe.map(limit),
        };
        meta::set_head(&mut batch, &parent)?;
        batch.write(false)?;
        shared.receipts.remove(&hash);
        shared.head.store(Arc::new(parent));
        Ok(())
    }
}

/// Takes a transaction of the block out of the index, or gives it the place back that it had before.
fn forget_place(shared: &Shared, batch: &mut Batch<'_>, hash: B256, number: u64) -> Result<(), StoreError> {
    if shared.transaction(hash)?.is_none_or(|(height, _)| height != number) {
        return Ok(());
    }
    let earlier = keys::earlier_place(hash, number);
    match shared.database.get(Column::Transactions, &earlier)? {
        Some(place) => {
            batch.put(Column::Transactions, hash, place)?;
            batch.delete(Column::Transactions, earlier)
        }
        None => batch.delete(Column::Transactions, hash),
    }
}

/// Puts back what the block's accounts and slots were before it, and removes its versions of them.
fn restore_state(shared: &Shared, batch: &mut Batch<'_>, number: u64) -> Result<(), StoreError> {
    let changes = changes_of(shared, number)?.ok_or_else(|| corrupt(format!("changes of block {number}")))?;
    for address in &changes.accounts {
        restore(shared, batch, ACCOUNTS, address.as_slice(), number)?;
    }
    for (address, slots) in &changes.slots {
        for slot in slots {
            restore(shared, batch, SLOTS, &keys::slot(*address, *slot), number)?;
        }
    }
    batch.delete(Column::Changes, keys::number(number))
}

/// What a block changed; none when that was pruned.
pub(crate) fn changes_of(shared: &Shared, number: u64) -> Result<Option<records::Changes>, StoreError> {
    let Some(record) = shared.database.get(Column::Changes, &keys::number(number))? else { return Ok(None) };
    records::decode_changes(&record).map(Some).ok_or_else(|| corrupt(format!("changes of block {number}")))
}

fn restore(
    shared: &Shared,
    batch: &mut Batch<'_>,
    (latest, history): (Column, Column),
    key: &[u8],
    number: u64,
) -> Result<(), StoreError> {
    match version_at(shared, history, key, number - 1, records::encode_latest)? {
        Some(record) => batch.put(latest, key, record)?,
        // It did not exist before, or its tombstone has been pruned.
        None => batch.delete(latest, key)?,
    }
    batch.delete(history, keys::version(key, number))
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
