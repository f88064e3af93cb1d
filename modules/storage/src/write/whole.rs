//! Makes the trie of a state whole that has left the window, because the chain goes on from there.

use std::ops::RangeInclusive;

use tenon_api::{BlockNumber, StoreError, TrieNodeWrite, Unlimited};

use crate::{
    database::Batch,
    format::{
        columns::Column,
        keys,
        meta::{self, TrieExtent},
        records,
    },
    read::{
        old_trie::{Span, base_below},
        shared::{Shared, corrupt},
    },
    store::Store,
    write::rebuild::complete_tries,
};

/// Nodes in one batch, before the next is begun.
const NODES_PER_BATCH: usize = 10_000;

/// Refuses to go back to a height from which no checkpoint below leads to a whole trie: when an archive was switched to
/// pruned mode or back.
pub(crate) fn require_trie(shared: &Shared, number: u64) -> Result<(), StoreError> {
    let oldest = shared.whole_tries_from();
    if number >= oldest || base_below(shared, number).is_some() {
        return Ok(());
    }
    Err(StoreError::Pruned { number: BlockNumber(number), oldest: BlockNumber(oldest) })
}

/// Stores the nodes of a state's trie that are not stored; needs no block above it. Nodes that are stored keep their
/// record: its height tells which blocks may not remove them. Until [`start_from`] a few nodes too many are stored, and
/// nothing else has changed.
///
/// If the checkpoint below lacks nodes, the tries concerned are computed from the flat state. A folder that was of
/// format 1 may lack some that the changes since the checkpoint do not touch, so there every trie is walked.
pub(crate) fn store_trie(shared: &Shared, number: u64) -> Result<(), StoreError> {
    store_trie_above(shared, number, None)
}

/// As [`store_trie`]; `whole` is a height below whose trie is stored, nearer than the checkpoint.
fn store_trie_above(shared: &Shared, number: u64, whole: Option<u64>) -> Result<(), StoreError> {
    match store_difference(shared, number, whole) {
        Ok(()) if shared.has_exact_checkpoints => return Ok(()),
        Ok(()) => {}
        Err(StoreError::Corrupt { what }) => {
            tracing::warn!(number, what, "trie cannot be computed from its checkpoint");
        }
        Err(error) => return Err(error),
    }
    let rebuilt = complete_tries(shared, number)?;
    tracing::info!(number, rebuilt, "every trie of the state is complete");
    Ok(())
}

/// Stores the nodes that the trie does not share with the one at `whole`, or with the checkpoint below.
fn store_difference(shared: &Shared, number: u64, whole: Option<u64>) -> Result<(), StoreError> {
    let unreadable = || corrupt(format!("trie of block {number}"));
    let checkpoint = base_below(shared, number).ok_or_else(unreadable)?;
    let span = Span::read(shared, number, whole.unwrap_or(checkpoint).max(checkpoint), &Unlimited)?;
    let mut batch = shared.database.batch();
    let mut count = 0;
    for owner in std::iter::once(None).chain(span.owners().map(Some)) {
        let nodes = span.trie(shared, owner, &Unlimited).map_err(|error| match error {
            tenon_chain::TrieError::Store(error) => error,
            error => corrupt(format!("trie of block {number}: {error}")),
        })?;
        for node in nodes {
            put_missing(shared, &mut batch, &node, checkpoint + 1)?;
            count += 1;
            if count == NODES_PER_BATCH {
                count = 0;
                std::mem::replace(&mut batch, shared.database.batch()).write(false)?;
            }
        }
    }
    batch.write(false)
}

/// Stores a node unless the position has it. `created` is the height in its record.
pub(crate) fn put_missing(
    shared: &Shared,
    batch: &mut Batch<'_>,
    node: &TrieNodeWrite,
    created: u64,
) -> Result<(), StoreError> {
    let key = keys::trie_position(&node.position, node.hash);
    if shared.database.get(Column::Trie, &key)?.is_some() {
        return Ok(());
    }
    batch.put(Column::Trie, key, records::encode_latest(created, &node.rlp))
}

/// Stores the tries of canonical blocks that are about to be removed, as far as they have left the window: the state of a
/// removed block is read from its trie, by its hash. Each is computed from the one before, not from the checkpoint again.
pub(crate) fn store_tries_of_removed(shared: &Shared, numbers: RangeInclusive<u64>) -> Result<(), StoreError> {
    let whole_from = shared.whole_tries_from();
    let mut whole = None;
    for number in numbers.take_while(|number| *number < whole_from) {
        store_trie_above(shared, number, whole)?;
        whole = Some(number);
    }
    Ok(())
}

/// Records that the trie of this height is whole although it had left the window; returns what to publish once the batch
/// is written.
pub(crate) fn start_from(shared: &Shared, batch: &mut Batch<'_>, number: u64) -> Result<TrieExtent, StoreError> {
    let extent = TrieExtent { whole_from: number, was_rebuilt: true, ..shared.trie_extent() };
    meta::set_trie_extent(batch, extent)?;
    Ok(extent)
}

impl Store {
    /// Of the blocks above `ancestor`, those whose states stay readable when they are removed: the newest, as many as tries
    /// are kept of while the head is old.
    pub(crate) fn removed_with_state(&self, ancestor: u64, head: u64) -> RangeInclusive<u64> {
        ancestor.max(head.saturating_sub(self.old_trie_window)) + 1..=head
    }

    /// Makes the head's trie whole if blocks were removed until the head had left the window. Also after an unwind that
    /// was killed. The caller holds the writer's lock, or is the only one that has the store.
    pub(crate) fn make_head_whole(&self) -> Result<(), StoreError> {
        let shared = &self.shared;
        let number = shared.head.load().header.number;
        if number >= shared.trie_extent().whole_from {
            return Ok(());
        }
        tracing::info!(number, "computing the trie of the head from the history");
        store_trie(shared, number)?;
        let mut batch = shared.database.batch();
        let extent = start_from(shared, &mut batch, number)?;
        batch.write(true)?;
        shared.set_trie_extent(extent);
        Ok(())
    }
}
