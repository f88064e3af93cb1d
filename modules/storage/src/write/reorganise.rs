//! Replaces a branch by another in one batch, so that disk and readers have the chain before or after it.

use std::sync::Arc;

use tenon_api::{BlockCommit, BlockNumber, Head, StoreError};

use crate::{
    database::Batch,
    error::corrupt,
    format::meta,
    read::shared::Shared,
    store::Store,
    write::{
        commit::{head_after, put_block_on_chain},
        pending::Pending,
        unwind::{head_at_most, remove_block},
        whole::{require_trie, start_from, store_trie, store_tries_of_removed},
    },
};

impl Store {
    /// Removes the blocks above `ancestor` and adds those of a branch.
    ///
    /// The batch is always synced: a reorganisation is rare, and the blocks that it removes may have been synced. The
    /// following commits prune old states.
    pub(crate) fn replace_above(&self, ancestor: BlockNumber, branch: &[Arc<BlockCommit>]) -> Result<(), StoreError> {
        let mut writer = self.writer.lock();
        let shared = &self.shared;
        let old = shared.head.load_full();
        let base = self.head_of(ancestor, &old)?;
        let Some(newest) = follows(&base, branch)? else { return Ok(()) };
        writer.created_nodes.forget();
        let has_left = ancestor.0 < shared.trie_extent().whole_from;
        if has_left {
            store_trie(shared, ancestor.0)?;
        }
        store_tries_of_removed(shared, self.removed_with_state(ancestor.0, old.number().0))?;

        let mut batch = shared.database.batch();
        let mut pending = Pending::of_many_blocks();
        let removed = remove_above(shared, &mut batch, &mut pending, ancestor, &old)?;
        for commit in branch {
            put_block_on_chain(shared, &mut batch, &mut pending, commit)?;
        }
        let head = head_after(newest, &base);
        meta::set_head(&mut batch, &head)?;
        let extent = has_left.then(|| start_from(shared, &mut batch, ancestor.0)).transpose()?;

        let (from, number) = (old.number(), head.number());
        {
            // While this is held, nothing below may read above the ancestor: the read would deadlock.
            let _replacing = shared.generations.replace_above(ancestor.0);
            let writing = shared.state_cache.begin_write();
            let outcome = batch.write(true);
            writing.clear();
            outcome?;
            if let Some(extent) = extent {
                shared.set_trie_extent(extent);
            }
            for commit in branch {
                self.cache_commit(commit, Arc::new(commit.block.header.clone()));
            }
            removed.iter().for_each(|hash| shared.receipts.remove(hash));
            shared.head.store(Arc::new(head));
        }
        writer.count_blocks(1, true);
        tracing::info!(%ancestor, %from, to = %number, "reorganisation: another branch became canonical");
        Ok(())
    }

    /// The head at height `number`.
    fn head_of(&self, number: BlockNumber, head: &Head) -> Result<Head, StoreError> {
        let shared = &self.shared;
        let oldest = shared.oldest_state();
        if number.0 < oldest {
            return Err(StoreError::Pruned { number, oldest: BlockNumber(oldest) });
        }
        let unknown = || StoreError::UnknownBlock { what: number.to_string() };
        if number > head.number() {
            return Err(unknown());
        }
        require_trie(shared, number.0)?;
        let (hash, _) = shared.canonical(number.0)?.ok_or_else(unknown)?;
        head_at_most(shared, head, number.0, hash)
    }
}

/// The newest block of a branch whose blocks follow one another from `base` on; `None` if the branch is empty.
pub(crate) fn follows<'a>(
    base: &Head,
    branch: &'a [Arc<BlockCommit>],
) -> Result<Option<&'a Arc<BlockCommit>>, StoreError> {
    let (mut number, mut hash) = (base.number(), base.header.hash());
    for commit in branch {
        let header = &commit.block.header;
        if header.number != number.0 + 1 || header.parent_hash != hash {
            return Err(StoreError::NotNext { number: commit.block.number(), head: number });
        }
        (number, hash) = (commit.block.number(), commit.block.hash());
    }
    Ok(branch.last())
}

/// Removes the blocks above `ancestor`, newest first; returns their hashes.
fn remove_above(
    shared: &Shared,
    batch: &mut Batch<'_>,
    pending: &mut Pending,
    ancestor: BlockNumber,
    head: &Head,
) -> Result<Vec<alloy_primitives::B256>, StoreError> {
    let mut removed = Vec::new();
    let mut hash = head.header.hash();
    for number in (ancestor.0 + 1..=head.header.number).rev() {
        remove_block(shared, batch, pending, number, hash)?;
        removed.push(hash);
        let missing = || corrupt(format!("header of block {number} ({hash})"));
        hash = shared.header(hash)?.ok_or_else(missing)?.parent_hash;
    }
    Ok(removed)
}
