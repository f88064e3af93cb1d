//! Prunes states that have left the window.

use std::sync::atomic::Ordering;

use tenon_api::StoreError;

use crate::{
    database::{Batch, cursor_status},
    format::{columns::Column, keys, meta, records},
    read::{
        shared::Shared,
        state::{ACCOUNTS, SLOTS},
    },
    store::Store,
    write::thin::drop_checkpoints,
};

/// Maximum number of heights that one commit prunes. At the tip it is one. After an archive was switched to pruned
/// mode, or a node was down, the backlog is spread over the following commits, so that none of them stalls.
const HEIGHTS_PER_COMMIT: u64 = 8;

impl Store {
    /// Raises the oldest kept state towards the mode's target. The caller holds the writer's lock.
    pub(crate) fn prune_to_window(&self) -> Result<(), StoreError> {
        let shared = &self.shared;
        let Some(wanted) = self.mode.oldest_wanted(shared.head.load().header.number) else { return Ok(()) };
        let oldest = shared.oldest_state();
        for height in (oldest + 1..=wanted).take(HEIGHTS_PER_COMMIT as usize) {
            // Published first, so that a reader of an older state that misses a record also learns the reason.
            shared.oldest_state.store(height, Ordering::Release);
            let pruned = prune_before(shared, height);
            pruned.inspect_err(|_| shared.oldest_state.store(height - 1, Ordering::Release))?;
        }
        drop_checkpoints(shared)
    }
}

/// Removes the state of the parent of `height`; older states must have been removed. Removes versions that are not read
/// at `height` or later, and trie nodes that the state of `height` superseded.
fn prune_before(shared: &Shared, height: u64) -> Result<(), StoreError> {
    let mut batch = shared.database.batch();
    meta::set_oldest_state(&mut batch, height)?;
    if let Some(changes) = shared.changes(height)? {
        for address in &changes.accounts {
            prune_versions(shared, &mut batch, ACCOUNTS, address.as_slice(), height)?;
        }
        for (address, slots) in &changes.slots {
            for slot in slots {
                prune_versions(shared, &mut batch, SLOTS, &keys::slot(*address, *slot), height)?;
            }
        }
        for key in &changes.superseded {
            let record = shared.database.get(Column::Trie, key)?;
            // A later block may have created the same node again; it then has that block's height.
            let is_dead =
                record.as_deref().and_then(records::decode_latest).is_some_and(|(created, _)| created <= height);
            if is_dead {
                batch.delete(Column::Trie, key)?;
            }
        }
        batch.delete(Column::Changes, keys::number(height))?;
        if !meta::removed_heights(&shared.database, 0, height)?.is_empty() {
            meta::forget_removed(&mut batch, height)?;
        }
    }
    batch.write(false)
}

/// Removes the versions of a key that are older than the one of `height`, and that one too if it is a tombstone: a
/// missing version reads the same.
fn prune_versions(
    shared: &Shared,
    batch: &mut Batch<'_>,
    (latest, history): (Column, Column),
    key: &[u8],
    height: u64,
) -> Result<(), StoreError> {
    let mut cursor = shared.database.prefix_cursor(history)?;
    cursor.seek(keys::version(key, height));
    while let Some((version, value)) = cursor.item().filter(|(version, _)| version.starts_with(key)) {
        let is_older = keys::version_number(version).is_some_and(|number| number < height);
        if is_older || value.is_empty() {
            batch.delete(history, version)?;
        }
        cursor.next();
    }
    cursor_status(&cursor)?;
    let record = shared.database.get(latest, key)?;
    let is_nothing = |(changed, value): (u64, &[u8])| changed <= height && value.is_empty();
    if record.as_deref().and_then(records::decode_latest).is_some_and(is_nothing) {
        batch.delete(latest, key)?;
    }
    Ok(())
}
