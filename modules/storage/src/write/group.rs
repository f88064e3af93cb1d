//! Commits several old blocks in one batch.
//!
//! Of blocks far below the head of the network, only the tries of checkpoints are needed later. A group of such blocks
//! therefore stores only the trie of its last block, as if it were already thinned. Nodes that a block of the group
//! creates and a later one supersedes are never written. Of a value that several blocks change, only the newest is
//! written as the latest value.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use alloy_primitives::{B256, Bytes, keccak256};
use foldhash::fast::RandomState;
use tenon_api::{BlockCommit, Head, Header, StoreError};

use crate::{
    Mode,
    database::Batch,
    format::{
        columns::Column,
        keys,
        meta::{self, TrieExtent, checkpoint_before},
        records::{self, Changes},
    },
    read::shared::Shared,
    store::{Store, Writer},
    write::{
        commit::{TrieKeys, head_after, put_block_and_state},
        created::CreatedNodes,
        pending::Pending,
        reorganise::follows,
        thin::{Thinning, is_of_state, is_old, thin_block},
    },
};

/// Maximum number of blocks below the head that are thinned before a group. With more of them, blocks are committed one
/// by one, and each commit thins a few.
const MAX_BACKLOG: u64 = 256;

/// The trie nodes that a group of blocks changes.
#[derive(Default)]
struct GroupNodes {
    /// Nodes that the group creates and does not supersede: height and RLP.
    created: HashMap<Vec<u8>, (u64, Bytes), RandomState>,
    /// Nodes from before the group that it supersedes. Some may have been created again.
    superseded: BTreeSet<Vec<u8>>,
}

impl GroupNodes {
    /// Adds the next block. Returns the superseded nodes that thinning keeps.
    fn add(&mut self, commit: &BlockCommit) -> Vec<Vec<u8>> {
        let number = commit.block.number().0;
        let owners: HashSet<B256> = commit.accounts.iter().map(|change| keccak256(change.address)).collect();
        let trie = TrieKeys::of(commit);
        let (superseded, kept): (Vec<_>, Vec<_>) =
            trie.superseded.into_iter().partition(|key| is_of_state(key, &owners));
        for key in superseded {
            if self.created.remove(&key).is_none() {
                self.superseded.insert(key);
            }
        }
        self.created.extend(trie.written.into_iter().map(|(key, rlp)| (key, (number, rlp.clone()))));
        kept
    }
}

impl Store {
    /// How many blocks like this one are committed in one batch, if available; at least 1.
    pub(crate) fn group_size(&self, header: &Header) -> usize {
        if self.mode == Mode::Archive && is_old(header) { self.old_group_blocks.max(1) } else { 1 }
    }

    /// Applies the first of these blocks, or several in one batch. Returns how many.
    pub(crate) fn commit_first(&self, commits: &[Arc<BlockCommit>]) -> Result<usize, StoreError> {
        let Some(first) = commits.first() else { return Ok(0) };
        let every = self.shared.trie_extent().checkpoint_every;
        let checkpoint = |commit: &BlockCommit| checkpoint_before(commit.block.number().0, every);
        let belongs = |commit: &&Arc<BlockCommit>| {
            checkpoint(commit) == checkpoint(first) && self.group_size(&commit.block.header) > 1
        };
        let size = commits.iter().take(self.old_group_blocks).take_while(belongs).count();
        // Without a checkpoint below, the chain could not be unwound by even one block.
        if size > 1 && checkpoint(first) >= self.shared.oldest_state() {
            let writer = &mut *self.writer.lock();
            if self.thin_to_head(&mut writer.created_nodes) {
                return self.commit_group(writer, &commits[..size]).map(|()| size);
            }
        }
        self.commit_next(first).map(|()| 1)
    }

    /// Thins all blocks up to the head, if there are few. Returns whether they are thinned.
    fn thin_to_head(&self, created: &mut CreatedNodes) -> bool {
        let shared = &self.shared;
        let (whole_from, head) = (shared.whole_tries_from(), self.head_number());
        if head.saturating_sub(whole_from) > MAX_BACKLOG {
            return false;
        }
        let thinned = (whole_from + 1..=head).try_for_each(|number| thin_block(shared, number, created));
        // The next block is committed on its own, and that commit thins some of them.
        thinned.inspect_err(|error| tracing::warn!(head, %error, "could not remove old tries")).is_ok()
    }

    /// Applies blocks with the same last checkpoint in one batch. Every block up to the head must be thinned.
    fn commit_group(&self, writer: &mut Writer, commits: &[Arc<BlockCommit>]) -> Result<(), StoreError> {
        let shared = &self.shared;
        let base = shared.head.load_full();
        let not_next = StoreError::NotNext { number: base.number(), head: base.number() };
        let newest = follows(&base, commits)?.filter(|_| writer.identity.is_some()).ok_or(not_next)?;
        // Does nothing unless an earlier unwind was interrupted before it completed the head's trie.
        self.make_head_whole()?;

        let (first, last) = (base.header.number + 1, newest.block.number().0);
        let thinning = Thinning::begin(shared, first, last, &mut writer.created_nodes)?;
        let mut batch = shared.database.batch();
        let group = put_blocks(shared, &mut batch, commits)?;
        thinning.remove(&mut batch, &group.superseded, &writer.created_nodes)?;
        // Written after the removals: a block may create a node again that an earlier block of the group superseded.
        for (key, (number, rlp)) in &group.created {
            batch.put(Column::Trie, key, records::encode_latest(*number, rlp))?;
        }
        thinning.end(&mut batch)?;
        let head = head_after(newest, &base);
        meta::set_head(&mut batch, &head)?;

        let is_sync_due = self.is_sync_due(writer, commits.len() as u64);
        let outcome = self.write_group(batch, &group, thinning.extent, is_sync_due);
        outcome.inspect_err(|_| writer.created_nodes.forget())?;
        writer.count_blocks(commits.len() as u64, is_sync_due);
        group.superseded.iter().for_each(|key| writer.created_nodes.removed(key, last));
        let created = group.created.iter().map(|(key, (number, _))| (*number, key));
        writer.created_nodes.committed(first, thinning.extent.checkpoint_every, created);
        self.publish_group(commits, group.created, head);
        Ok(())
    }

    /// Writes the batch of a group. Afterwards, even on failure, readers' caches contain only what is written.
    fn write_group(
        &self,
        batch: Batch<'_>,
        group: &Group,
        extent: TrieExtent,
        is_synced: bool,
    ) -> Result<(), StoreError> {
        let shared = &self.shared;
        let before = shared.trie_extent();
        // Published first, so that a reader that misses a node also learns the reason.
        shared.set_trie_extent(extent);
        let writing = shared.state_cache.begin_write();
        let outcome = batch.write(is_synced);
        group.changes.iter().for_each(|changes| writing.remove_changed(changes));
        outcome.inspect_err(|_| shared.set_trie_extent(before))
    }

    /// Publishes the blocks to readers. The batch has been written.
    fn publish_group(&self, commits: &[Arc<BlockCommit>], created: Vec<CreatedNode>, head: Head) {
        for commit in commits {
            self.cache_block(commit, Arc::new(commit.block.header.clone()));
        }
        for (key, (_, rlp)) in created {
            if let Some(hash) = key.last_chunk::<32>() {
                let weight = rlp.len();
                self.shared.trie_nodes.insert(B256::from(hash), rlp, weight);
            }
        }
        self.shared.head.store(Arc::new(head));
    }
}

/// A created node: its key, its height, its RLP.
type CreatedNode = (Vec<u8>, (u64, Bytes));

/// What the batch of a group changes. Keys are in ascending order.
struct Group {
    changes: Vec<Changes>,
    /// Nodes of the last state that the group has created.
    created: Vec<CreatedNode>,
    /// Nodes from before the group that a block of it has superseded.
    superseded: Vec<Vec<u8>>,
}

/// All changes of consecutive blocks except those of trie nodes and the head.
fn put_blocks(shared: &Shared, batch: &mut Batch<'_>, commits: &[Arc<BlockCommit>]) -> Result<Group, StoreError> {
    let mut pending = Pending::of_group();
    let mut nodes = GroupNodes::default();
    let mut changed = Vec::with_capacity(commits.len());
    for commit in commits {
        let (accounts, slots) = put_block_and_state(shared, batch, &mut pending, commit)?;
        let changes = Changes { accounts, slots, superseded: nodes.add(commit) };
        batch.put(Column::Changes, keys::number(commit.block.number().0), records::encode_changes(&changes))?;
        changed.push(changes);
    }
    pending.put_latest(batch)?;
    let mut created: Vec<CreatedNode> = nodes.created.into_iter().collect();
    created.sort_unstable_by(|left, right| left.0.cmp(&right.0));
    Ok(Group { changes: changed, created, superseded: nodes.superseded.into_iter().collect() })
}
