//! Commits a block: one batch, then the head.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use alloy_primitives::{Address, B256, Bytes, U256};
use tenon_api::{AccountChange, BlockCommit, BlockNumber, Head, RecoveredBlock, SealedHeader, StoreError, Transaction};

use crate::{
    database::Batch,
    error::corrupt,
    format::{
        bodies,
        columns::Column,
        keys::{self, LogIndexPrefix, LogKind},
        meta::{self, Identity},
        records::{self, Changes},
    },
    read::shared::{Shared, block_weight, header_weight, receipts_weight},
    store::Store,
    write::pending::Pending,
};

impl Store {
    /// Stores block 0 and the chain's identity in an empty database.
    pub(crate) fn commit_genesis(&self, genesis: &BlockCommit, identity: Identity) -> Result<(), StoreError> {
        if genesis.block.number() != BlockNumber::GENESIS {
            return Err(StoreError::NotNext { number: genesis.block.number(), head: BlockNumber::GENESIS });
        }
        let head = head_after(genesis, &self.shared.head.load());
        let (mut batch, applied) = block_batch(&self.shared, genesis, &head)?;
        meta::set_identity(&mut batch, identity)?;
        self.write_state(batch, &applied.changes, true)?;
        self.publish(genesis, head);
        Ok(())
    }

    /// Applies a block on top of the head.
    pub(crate) fn commit_next(&self, commit: &BlockCommit) -> Result<(), StoreError> {
        let writer = &mut *self.writer.lock();
        let parent = self.shared.head.load_full();
        let header = &commit.block.header;
        let is_next = header.number == parent.header.number + 1 && header.parent_hash == parent.header.hash();
        if writer.identity.is_none() || !is_next {
            return Err(StoreError::NotNext { number: commit.block.number(), head: parent.number() });
        }

        // Does nothing unless an earlier unwind was interrupted before it completed the head's trie.
        self.make_head_whole()?;
        let head = head_after(commit, &parent);
        let (batch, applied) = block_batch(&self.shared, commit, &head)?;
        let is_sync_due = self.is_sync_due(writer, 1);
        self.write_state(batch, &applied.changes, is_sync_due).inspect_err(|_| writer.created_nodes.forget())?;
        writer.count_blocks(1, is_sync_due);
        self.list_created(&mut writer.created_nodes, header.number, &applied.nodes);
        self.publish(commit, head);

        // The block is committed even if this fails; pruning continues after the next block.
        if let Err(error) = self.prune_to_window() {
            tracing::warn!(number = header.number, %error, "could not prune old states");
        }
        if let Err(error) = self.thin_to_window(&mut writer.created_nodes) {
            tracing::warn!(number = header.number, %error, "could not remove old tries");
        }
        Ok(())
    }

    /// Stores a block outside the canonical chain.
    pub(crate) fn write_side_block(&self, block: &RecoveredBlock, total_difficulty: U256) -> Result<(), StoreError> {
        let _writer = self.writer.lock();
        let mut batch = self.shared.database.batch();
        put_block(&mut batch, block, total_difficulty)?;
        batch.write(false)
    }

    /// Writes a block's state changes. Afterwards, even on failure, readers' caches contain only what is written.
    fn write_state(&self, batch: Batch<'_>, changes: &Changes, is_synced: bool) -> Result<(), StoreError> {
        let writing = self.shared.state_cache.begin_write();
        let outcome = batch.write(is_synced);
        writing.remove_changed(changes);
        outcome
    }

    /// Publishes the block to readers. The batch has been written.
    fn publish(&self, commit: &BlockCommit, head: Head) {
        self.cache_commit(commit, Arc::clone(&head.header));
        self.shared.head.store(Arc::new(head));
    }

    /// Caches the parts of a new block that are requested most, and its trie nodes.
    pub(crate) fn cache_commit(&self, commit: &BlockCommit, header: Arc<SealedHeader>) {
        self.cache_block(commit, header);
        for node in &commit.trie_nodes {
            self.shared.trie_nodes.insert(node.hash, node.rlp.clone(), node.rlp.len());
        }
    }

    /// Caches the parts of a new block that are requested most.
    pub(crate) fn cache_block(&self, commit: &BlockCommit, header: Arc<SealedHeader>) {
        let shared = &self.shared;
        let hash = header.hash();
        shared.headers.insert(hash, Arc::clone(&header), header_weight(&header));
        shared.blocks.insert(hash, Arc::clone(&commit.block), block_weight(&commit.block));
        shared.receipts.insert(hash, Arc::clone(&commit.receipts), receipts_weight(&commit.receipts));
    }
}

/// The head after this block.
pub(crate) fn head_after(commit: &BlockCommit, parent: &Head) -> Head {
    Head {
        header: Arc::new(commit.block.header.clone()),
        total_difficulty: commit.total_difficulty,
        finalized: parent.finalized,
        safe: parent.safe,
    }
}

/// The changes in a block's batch.
pub(crate) struct Applied {
    pub(crate) changes: Changes,
    /// Keys of the trie nodes that it writes.
    pub(crate) nodes: Vec<Vec<u8>>,
}

/// All changes of a block as one batch, and the list of them.
fn block_batch<'a>(shared: &'a Shared, commit: &BlockCommit, head: &Head) -> Result<(Batch<'a>, Applied), StoreError> {
    let mut batch = shared.database.batch();
    let applied = put_block_on_chain(shared, &mut batch, &mut Pending::of_one_block(), commit)?;
    meta::set_head(&mut batch, head)?;
    Ok((batch, applied))
}

/// All changes of a block except the head; returns the list of them.
pub(crate) fn put_block_on_chain(
    shared: &Shared,
    batch: &mut Batch<'_>,
    pending: &mut Pending,
    commit: &BlockCommit,
) -> Result<Applied, StoreError> {
    let (accounts, slots) = put_block_and_state(shared, batch, pending, commit)?;
    let trie = TrieKeys::of(commit);
    for (key, rlp) in &trie.written {
        // The node may already exist because an earlier block superseded it and has not been pruned yet. The newer
        // height protects the node when that block is pruned.
        batch.put(Column::Trie, key, records::encode_latest(commit.block.number().0, rlp))?;
    }
    let nodes = trie.written.into_iter().map(|(key, _)| key).collect();
    let changes = Changes { accounts, slots, superseded: trie.superseded };
    batch.put(Column::Changes, keys::number(commit.block.number().0), records::encode_changes(&changes))?;
    Ok(Applied { changes, nodes })
}

/// A block and its state, without trie nodes and without the list of changes; returns the changed accounts and slots.
pub(crate) fn put_block_and_state(
    shared: &Shared,
    batch: &mut Batch<'_>,
    pending: &mut Pending,
    commit: &BlockCommit,
) -> Result<(Vec<Address>, ChangedSlots), StoreError> {
    let block = &commit.block;
    if block.transactions.len() != commit.receipts.len() {
        let (transactions, receipts) = (block.transactions.len(), commit.receipts.len());
        let number = block.number();
        return Err(StoreError::Engine(format!(
            "commit of block {number} has {receipts} receipts for {transactions} transactions"
        )));
    }
    put_block(batch, block, commit.total_difficulty)?;
    put_on_chain(shared, batch, pending, commit)?;
    put_receipts(batch, commit)?;
    let kept = keys::side_block(block.number().0, block.hash());
    if shared.database.get(Column::Receipts, &kept)?.is_some() {
        // The block is canonical again.
        batch.delete(Column::Receipts, kept)?;
    }
    for (hash, code) in &commit.codes {
        batch.put(Column::Codes, hash, code)?;
    }
    put_state(shared, batch, pending, commit)
}

/// Header and body, as for a block of any branch.
fn put_block(batch: &mut Batch<'_>, block: &RecoveredBlock, total_difficulty: U256) -> Result<(), StoreError> {
    let (number, hash) = (block.number().0, block.hash());
    let key = keys::block(number, hash);
    let mut header_rlp = Vec::with_capacity(700);
    tenon_chain::encode_header(block.header.header(), &mut header_rlp);
    let body = bodies::encode_body(&block.senders, &tenon_chain::encode_block(block))
        .ok_or_else(|| corrupt(format!("encoding of block {number} ({hash})")))?;
    batch.put(Column::HeaderNumbers, hash, keys::number(number))?;
    batch.put(Column::Headers, key, records::encode_header(total_difficulty, &header_rlp))?;
    batch.put(Column::Bodies, key, body)
}

/// The canonical entry and the transaction index. A hash that occurs a second time is found at its latest position; the
/// earlier one is kept for unwinding this block.
fn put_on_chain(
    shared: &Shared,
    batch: &mut Batch<'_>,
    pending: &mut Pending,
    commit: &BlockCommit,
) -> Result<(), StoreError> {
    let block = &commit.block;
    let number = block.number().0;
    let canonical = records::encode_canonical(block.hash(), block.header.timestamp);
    batch.put(Column::Canonical, keys::number(number), canonical)?;
    // Written in ascending order, like all large groups of a block's keys: memory tables are sorted lists, and the path
    // to a neighbouring key is still in the processor's cache.
    let mut places: Vec<(B256, u32)> =
        block.transactions.iter().map(|transaction| transaction.hash).zip(0_u32..).collect();
    places.sort_unstable();
    for (hash, index) in &places {
        batch.put(Column::Transactions, hash, records::encode_location(number, *index))?;
    }
    for hash in repeatable(commit) {
        if let Some((height, index)) = pending.place_of(shared, hash)?.filter(|(height, _)| *height < number) {
            let earlier = records::encode_location(height, index);
            batch.put(Column::Transactions, keys::earlier_place(hash, number), earlier)?;
        }
    }
    // Recorded after the search for earlier positions, which would otherwise find these new ones.
    for (hash, index) in places {
        pending.place(hash, Some((number, index)));
    }
    Ok(())
}

/// The transactions that may have been on the chain before. Only transactions that did not raise their sender's nonce
/// above their own can have been, such as the exchange's on native chains. Checking all would cost a read each.
fn repeatable(commit: &BlockCommit) -> impl Iterator<Item = B256> {
    let mut nonces: Vec<(Address, u64)> =
        commit.accounts.iter().filter_map(|change| Some((change.address, change.account?.nonce))).collect();
    // The executor returns them in order; the sort then only checks that.
    nonces.sort_unstable();
    let transactions = commit.block.transactions.iter().zip(&commit.block.senders);
    let may_repeat = move |(transaction, sender): &(&Arc<Transaction>, &Address)| {
        let after = nonces.binary_search_by_key(sender, |(address, _)| address).ok().map(|at| nonces[at].1);
        after.is_none_or(|nonce| nonce <= transaction.nonce)
    };
    transactions.filter(may_repeat).map(|(transaction, _)| transaction.hash)
}

/// Receipts, logs and the log index.
fn put_receipts(batch: &mut Batch<'_>, commit: &BlockCommit) -> Result<(), StoreError> {
    let block = &commit.block;
    let number = block.number().0;
    batch.put(Column::Receipts, keys::block(number, block.hash()), records::encode_receipts(&commit.receipts))?;
    let mut index: BTreeMap<LogIndexPrefix, Vec<u32>> = BTreeMap::new();
    let mut position = 0_u32;
    for ((transaction_index, transaction), receipt) in (0_u64..).zip(&block.transactions).zip(commit.receipts.iter()) {
        for log in &receipt.logs {
            let record = records::encode_log(transaction_index, transaction.hash, log);
            batch.put(Column::Logs, keys::log(number, position), record)?;
            for prefix in log_prefixes(log) {
                index.entry(prefix).or_default().push(position);
            }
            position += 1;
        }
    }
    for (prefix, positions) in index {
        batch.put(Column::LogIndex, keys::log_index(&prefix, number), records::encode_positions(&positions))?;
    }
    Ok(())
}

/// The index entries of a log: its contract and its topics.
pub(crate) fn log_prefixes(log: &tenon_api::Log) -> impl Iterator<Item = LogIndexPrefix> {
    let topics = (0_u8..4).zip(&log.topics).map(|(position, topic)| keys::log_prefix(LogKind::Topic(position), *topic));
    std::iter::once(keys::log_address_prefix(log.address)).chain(topics)
}

/// The slots changed by a block, by account.
pub(crate) type ChangedSlots = Vec<(Address, Vec<B256>)>;

/// Writes the latest values and their versions; returns the changed keys.
fn put_state(
    shared: &Shared,
    batch: &mut Batch<'_>,
    pending: &mut Pending,
    commit: &BlockCommit,
) -> Result<(Vec<Address>, ChangedSlots), StoreError> {
    let number = commit.block.number().0;
    let mut accounts = Vec::with_capacity(commit.accounts.len());
    let mut slots = ChangedSlots::new();
    for change in &commit.accounts {
        let value = records::encode_account(change.account.as_ref());
        let columns = (Column::AccountLatest, Column::AccountHistory);
        put_version(batch, pending, columns, (change.address.as_slice(), number), &value)?;
        accounts.push(change.address);
        let changed = put_slots(shared, batch, pending, change, number)?;
        if !changed.is_empty() {
            slots.push((change.address, changed));
        }
    }
    Ok((accounts, slots))
}

/// Writes the slots of one account; a wiped storage leaves a tombstone for each slot that had a value.
fn put_slots(
    shared: &Shared,
    batch: &mut Batch<'_>,
    pending: &mut Pending,
    change: &AccountChange,
    number: u64,
) -> Result<Vec<B256>, StoreError> {
    let columns = (Column::SlotLatest, Column::SlotHistory);
    let mut changed: Vec<B256> = Vec::with_capacity(change.slots.len());
    // A deleted account has no storage, even if the commit does not list its slots as deleted.
    if change.storage_wiped || change.account.is_none() {
        let kept: HashSet<B256> = change.slots.iter().map(|slot| slot.slot).collect();
        for slot in pending.slots_with_value(shared, change.address)? {
            if !kept.contains(&slot) {
                pending.slot(change.address, slot, false);
                put_version(batch, pending, columns, (&keys::slot(change.address, slot), number), &[])?;
                changed.push(slot);
            }
        }
    }
    for slot in &change.slots {
        let value = records::encode_slot(slot.value);
        pending.slot(change.address, slot.slot, !value.is_empty());
        put_version(batch, pending, columns, (&keys::slot(change.address, slot.slot), number), &value)?;
        changed.push(slot.slot);
    }
    Ok(changed)
}

fn put_version(
    batch: &mut Batch<'_>,
    pending: &mut Pending,
    (latest, history): (Column, Column),
    (key, number): (&[u8], u64),
    value: &[u8],
) -> Result<(), StoreError> {
    pending.latest(batch, latest, key, records::encode_latest(number, value))?;
    batch.put(history, keys::version(key, number), value)
}

/// Keys of the trie nodes that a block changes.
pub(crate) struct TrieKeys<'a> {
    /// New nodes, with their RLP, in ascending order.
    pub(crate) written: Vec<(Vec<u8>, &'a Bytes)>,
    pub(crate) superseded: Vec<Vec<u8>>,
}

impl<'a> TrieKeys<'a> {
    /// A node that a block removes and adds again is not superseded; pruning it would corrupt the state.
    pub(crate) fn of(commit: &'a BlockCommit) -> Self {
        let mut written: Vec<(Vec<u8>, &Bytes)> =
            commit.trie_nodes.iter().map(|node| (keys::trie_position(&node.position, node.hash), &node.rlp)).collect();
        written.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        let is_written = |key: &Vec<u8>| written.binary_search_by(|(written, _)| written.cmp(key)).is_ok();
        let superseded = commit.superseded_trie_nodes.iter();
        let superseded = superseded.map(|(position, hash)| keys::trie_position(position, *hash));
        let superseded = superseded.filter(|key| !is_written(key)).collect();
        Self { written, superseded }
    }
}
