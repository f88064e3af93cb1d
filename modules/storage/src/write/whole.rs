//! Completes the trie of a state that has left the window, because the chain continues from that state.

use std::ops::RangeInclusive;

use tenon_api::{BlockNumber, StoreError, Unlimited};

use crate::{
    database::Batch,
    error::corrupt,
    format::meta::{self, TrieExtent},
    read::{
        old_trie::{Span, base_below},
        shared::Shared,
    },
    store::Store,
    write::{missing_nodes::put_missing, rebuild::complete_tries},
};

/// Maximum number of nodes per batch.
const NODES_PER_BATCH: usize = 10_000;

/// Refuses an unwind to a height whose trie cannot be completed, because no checkpoint below it is usable. This happens
/// after an archive was switched to pruned mode or back.
pub(crate) fn require_trie(shared: &Shared, number: u64) -> Result<(), StoreError> {
    let oldest = shared.whole_tries_from();
    if number >= oldest || base_below(shared, number).is_some() {
        return Ok(());
    }
    Err(StoreError::Pruned { number: BlockNumber(number), oldest: BlockNumber(oldest) })
}

/// Stores the missing nodes of a state's trie; needs no block above it. Nodes that are already stored keep their
/// record, because its height shows which blocks must not remove them. Until [`start_from`] is called, the only effect
/// is a few superfluous nodes.
///
/// If the checkpoint below lacks nodes, the tries concerned are rebuilt from the flat state. A folder created with
/// format 1 may also lack nodes that the changes since the checkpoint do not touch, so there every trie is walked.
pub(crate) fn store_trie(shared: &Shared, number: u64) -> Result<(), StoreError> {
    store_trie_above(shared, number, None)
}

/// [`store_trie`] from another base: `whole` is a height between the checkpoint and this one whose trie is stored.
fn store_trie_above(shared: &Shared, number: u64, whole: Option<u64>) -> Result<(), StoreError> {
    match store_difference(shared, number, whole) {
        Ok(()) if shared.has_exact_checkpoints => return Ok(()),
        Ok(()) => {}
        Err(StoreError::Corrupt { what }) => {
            tracing::warn!(number, what, "a trie cannot be computed from its checkpoint: incomplete tries are rebuilt");
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

/// Stores the tries of canonical blocks that are about to be removed and have left the window, because the state of a
/// removed block is read from its trie, by hash. Each trie is computed from the previous one instead of from the
/// checkpoint.
pub(crate) fn store_tries_of_removed(shared: &Shared, numbers: RangeInclusive<u64>) -> Result<(), StoreError> {
    let whole_from = shared.whole_tries_from();
    let mut whole = None;
    for number in numbers.take_while(|number| *number < whole_from) {
        store_trie_above(shared, number, whole)?;
        whole = Some(number);
    }
    Ok(())
}

/// Records that the trie of this height is complete although the height had left the window. Returns the extent to
/// publish once the batch is written.
pub(crate) fn start_from(shared: &Shared, batch: &mut Batch<'_>, number: u64) -> Result<TrieExtent, StoreError> {
    let extent = TrieExtent { whole_from: number, was_rebuilt: true, ..shared.trie_extent() };
    meta::set_trie_extent(batch, extent)?;
    Ok(extent)
}

impl Store {
    /// The blocks above `ancestor` whose states stay readable after their removal: the newest ones, as many as the
    /// window has while the head is old.
    pub(crate) fn removed_with_state(&self, ancestor: u64, head: u64) -> RangeInclusive<u64> {
        ancestor.max(head.saturating_sub(self.old_trie_window)) + 1..=head
    }

    /// Completes the head's trie if blocks were removed down to a height outside the window, possibly by an unwind that
    /// was killed. The caller holds the writer's lock, or has exclusive access to the store.
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
