//! Thins the tries of an archive: of states that have left the window, only the nodes of checkpoints are kept.
//!
//! States are read from the flat history at any height. Old trie nodes are needed only for proofs, which are computed
//! from the nearest checkpoint (`read::old_trie`). When a block leaves the window, the nodes that it superseded leave
//! the column of tries. A node of the last checkpoint before the block moves to the column of checkpoints. Any other
//! node belongs to no checkpoint, and is removed. So the complete trie of every checkpoint is kept without ever being
//! copied, and once its nodes have moved, later changes of the newest states do not affect it.
//!
//! A node's record contains the height of the block that created it, which shows whether the node existed at the
//! checkpoint; mostly [`CreatedNodes`] knows the height without a read. In two cases the height is not conclusive, and
//! the node is kept for the checkpoint, which costs only space:
//!
//! - The node was created again after the block that superseded it: the record contains the later height.
//! - The record contains a height at which a block was removed from the chain.

use std::{
    collections::{BTreeSet, HashSet},
    ops::Range,
    sync::{Arc, atomic::Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use alloy_primitives::{B256, Bytes, keccak256};
use tenon_api::{Header, StoreError};

use crate::{
    Mode,
    database::Batch,
    error::corrupt,
    format::{
        columns::Column,
        keys,
        meta::{self, TrieExtent, checkpoint_before},
        records,
    },
    read::shared::Shared,
    store::Store,
    write::created::{CreatedNodes, Creation},
};

/// Maximum number of blocks that one commit thins. At the tip it is one; the backlog of a folder that was larger before
/// is spread over the following commits.
const BLOCKS_PER_COMMIT: usize = 8;

/// A block of this age is far below the head of its network.
const OLD_AGE: Duration = Duration::from_secs(86_400);

/// Blocks between two calls of an observer of [`Store::thin`].
const BLOCKS_PER_REPORT: u64 = 64;

impl Store {
    /// Thins blocks that have left the window, a few per call. The caller holds the writer's lock.
    pub(crate) fn thin_to_window(&self, created: &mut CreatedNodes) -> Result<(), StoreError> {
        for number in self.blocks_to_thin().take(BLOCKS_PER_COMMIT) {
            thin_block(&self.shared, number, created)?;
        }
        Ok(())
    }

    /// Lists the nodes of a committed block, if thinning will need their heights.
    pub(crate) fn list_created(&self, created: &mut CreatedNodes, number: u64, nodes: &[Vec<u8>]) {
        if self.mode == Mode::Archive {
            let every = self.shared.trie_extent().checkpoint_every;
            created.committed(number, every, nodes.iter().map(|key| (number, key)));
        }
    }

    /// Thins every block that has left the window, and then rewrites the columns without the removed records.
    /// `progress` receives the number of finished blocks and the total; `is_cancelled` may stop it. It can be stopped
    /// or killed at any time, and continues from there the next time. Returns the number of thinned blocks.
    ///
    /// # Errors
    /// [`StoreError`]; what is done stays done.
    pub fn thin(&self, progress: &mut dyn FnMut(u64, u64), is_cancelled: &dyn Fn() -> bool) -> Result<u64, StoreError> {
        let mut writer = self.writer.lock();
        let blocks = self.blocks_to_thin();
        let all = blocks.end - blocks.start;
        let mut done = 0;
        for number in blocks {
            if is_cancelled() {
                return Ok(done);
            }
            thin_block(&self.shared, number, &mut writer.created_nodes)?;
            done += 1;
            if done.is_multiple_of(BLOCKS_PER_REPORT) || done == all {
                progress(done, all);
            }
        }
        if done > 0 {
            for column in [Column::Trie, Column::TrieCheckpoints, Column::Changes] {
                self.shared.database.compact(column)?;
            }
        }
        Ok(done)
    }

    /// The blocks that have left the window and are not thinned yet.
    fn blocks_to_thin(&self) -> Range<u64> {
        let first = self.shared.whole_tries_from().saturating_add(1);
        if self.mode != Mode::Archive {
            return first..first;
        }
        let head = self.shared.head.load();
        let window = if is_old(&head.header) { self.trie_window.min(self.old_trie_window) } else { self.trie_window };
        let last = head.header.number.saturating_sub(window.max(1));
        first..last.saturating_add(1).max(first)
    }
}

/// Whether a block is far below the head of its network.
pub(crate) fn is_old(header: &Header) -> bool {
    // The age is a difference, because adding a timestamp to `UNIX_EPOCH` can overflow.
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_epoch.checked_sub(Duration::from_secs(header.timestamp)).is_some_and(|age| age > OLD_AGE)
}

/// Thins one block, given that all before it are thinned.
pub(crate) fn thin_block(shared: &Shared, number: u64, created: &mut CreatedNodes) -> Result<(), StoreError> {
    let missing = || corrupt(format!("changes of block {number}"));
    let mut changes = shared.changes(number)?.ok_or_else(missing)?;
    let owners: HashSet<B256> = changes.accounts.iter().map(keccak256).collect();
    let (mut superseded, others): (Vec<_>, Vec<_>) =
        changes.superseded.into_iter().partition(|key| is_of_state(key, &owners));
    superseded.sort_unstable();
    let thinning = Thinning::begin(shared, number, number, created)?;
    let mut batch = shared.database.batch();
    thinning.remove(&mut batch, &superseded, created)?;
    changes.superseded = others;
    batch.put(Column::Changes, keys::number(number), records::encode_changes(&changes))?;
    thinning.end(&mut batch)?;
    // Published first, so that a reader that misses a node also learns the reason.
    let before = shared.trie_extent();
    shared.set_trie_extent(thinning.extent);
    batch.write(false).inspect_err(|_| {
        shared.set_trie_extent(before);
        created.forget();
    })?;
    // A node that was created again after this block stays on the list, for the block that supersedes it next.
    superseded.iter().for_each(|key| created.removed(key, number));
    Ok(())
}

/// Removes the nodes that consecutive blocks superseded, given that all blocks before them are thinned.
pub(crate) struct Thinning<'a> {
    shared: &'a Shared,
    first: u64,
    last: u64,
    /// The last checkpoint below the blocks.
    checkpoint: u64,
    /// Whether its nodes are kept. A checkpoint below the oldest state serves no reads.
    is_checkpoint_kept: bool,
    /// Heights since the checkpoint at which a block was removed from the chain.
    removed: BTreeSet<u64>,
    /// The extent of the kept tries afterwards.
    pub(crate) extent: TrieExtent,
}

/// What thinning does with a node of [`Column::Trie`].
enum NodeDecision {
    /// The node is removed.
    Removed,
    /// The node moves to the nodes of checkpoints.
    Moved(Bytes),
    /// Its record decides.
    Undecided,
}

impl<'a> Thinning<'a> {
    /// For the blocks from `first` to `last`, which have the same checkpoint below them.
    pub(crate) fn begin(
        shared: &'a Shared,
        first: u64,
        last: u64,
        created: &mut CreatedNodes,
    ) -> Result<Self, StoreError> {
        let extent = TrieExtent { whole_from: last, ..shared.trie_extent() };
        let checkpoint = checkpoint_before(first, extent.checkpoint_every);
        created.passed(checkpoint);
        let removed = meta::removed_heights(&shared.database, checkpoint.saturating_add(1), last)?;
        let is_checkpoint_kept = checkpoint >= shared.oldest_state();
        Ok(Self { shared, first, last, checkpoint, is_checkpoint_kept, removed, extent })
    }

    /// Removes or moves the nodes of these keys, which are in ascending order.
    pub(crate) fn remove(
        &self,
        batch: &mut Batch<'_>,
        superseded: &[Vec<u8>],
        created: &CreatedNodes,
    ) -> Result<(), StoreError> {
        let mut undecided = Vec::new();
        for key in superseded {
            match self.fate(key, created.creation(key, self.checkpoint)) {
                NodeDecision::Removed => {}
                NodeDecision::Moved(rlp) => batch.put(Column::TrieCheckpoints, key, rlp)?,
                NodeDecision::Undecided => {
                    undecided.push(key);
                    continue;
                }
            }
            batch.delete(Column::Trie, key)?;
        }
        let records = self.shared.database.get_sorted(Column::Trie, undecided.iter().copied())?;
        for (key, record) in undecided.into_iter().zip(records) {
            let Some(record) = record else { continue };
            let (created, rlp) = records::decode_latest(&record).ok_or_else(|| corrupt("a trie node"))?;
            let is_back = created > self.last;
            if self.is_checkpoint_kept && (is_back || created <= self.checkpoint || self.removed.contains(&created)) {
                batch.put(Column::TrieCheckpoints, key, rlp)?;
            }
            if !is_back {
                batch.delete(Column::Trie, key)?;
            }
        }
        Ok(())
    }

    /// Decides what to do with a node; [`NodeDecision::Undecided`] if its record must be read first.
    fn fate(&self, key: &[u8], creation: Creation) -> NodeDecision {
        match creation {
            Creation::At(height) if height > self.last || self.removed.contains(&height) => NodeDecision::Undecided,
            Creation::At(height) if height > self.checkpoint => NodeDecision::Removed,
            Creation::UpToCheckpoint if !self.is_checkpoint_kept => NodeDecision::Removed,
            Creation::UpToCheckpoint => {
                self.shared.cached_trie_node(key).map_or(NodeDecision::Undecided, NodeDecision::Moved)
            }
            Creation::At(_) | Creation::Unknown => NodeDecision::Undecided,
        }
    }

    /// Records that the blocks are thinned.
    pub(crate) fn end(&self, batch: &mut Batch<'_>) -> Result<(), StoreError> {
        if self.first == self.checkpoint + 1 {
            meta::forget_removed(batch, self.checkpoint)?;
        }
        meta::set_trie_extent(batch, self.extent)
    }
}

/// Whether a node belongs to a trie that the flat history can restore: the trie of accounts, or the storage trie of an
/// account that the block changed. Other tries, such as those of the historic exchange, are kept.
pub(crate) fn is_of_state(key: &[u8], owners: &HashSet<B256>) -> bool {
    let owner = key.first_chunk::<32>().map(B256::from);
    owner.is_some_and(|owner| owner.is_zero() || owners.contains(&owner))
}

/// Removes the nodes of all checkpoints once no kept state needs them: after an archive was switched to pruned mode.
pub(crate) fn drop_checkpoints(shared: &Shared) -> Result<(), StoreError> {
    let extent = shared.trie_extent();
    let is_needed = extent.was_rebuilt || shared.oldest_state() < extent.whole_from;
    if extent.whole_from == 0 || is_needed {
        return Ok(());
    }
    let extent = TrieExtent { whole_from: 0, ..extent };
    let mut batch = shared.database.batch();
    batch.delete_range(Column::TrieCheckpoints, &[], &[0xff; 129])?;
    meta::set_trie_extent(&mut batch, extent)?;
    batch.write(false)?;
    shared.set_trie_extent(extent);
    Ok(())
}

impl Shared {
    /// The node of a key of [`Column::Trie`], if it is in memory.
    fn cached_trie_node(&self, key: &[u8]) -> Option<Bytes> {
        let hash = key.last_chunk::<32>().map(B256::from)?;
        self.trie_nodes.peek(&hash, Bytes::clone)
    }

    /// The extent of the kept tries.
    pub(crate) fn trie_extent(&self) -> TrieExtent {
        **self.trie_extent.load()
    }

    /// Publishes the extent of the kept tries, before nodes are removed.
    pub(crate) fn set_trie_extent(&self, extent: TrieExtent) {
        self.trie_extent.store(Arc::new(extent));
    }

    /// The oldest height whose trie is whole among the newest states' nodes.
    pub(crate) fn whole_tries_from(&self) -> u64 {
        self.trie_extent().whole_from.max(self.oldest_state.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_the_future_are_not_old() {
        let is_old_at = |timestamp| is_old(&Header { timestamp, ..Header::default() });
        for timestamp in [u64::MAX, u64::MAX - 1, i64::MAX as u64 + 1, 1 << 40] {
            assert!(!is_old_at(timestamp), "{timestamp}");
        }
        assert!(is_old_at(0));
    }
}
