//! Data shared by all readers: the open database, the head, and the caches.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use alloy_primitives::{B256, Bytes, U256};
use arc_swap::ArcSwap;
use tenon_api::{EMPTY_CODE_HASH, Head, Log, Receipt, RecoveredBlock, SealedHeader, StoreError, TrieReader};
use tenon_chain::ListTrie;

use crate::{
    StoreOptions,
    cache::BoundedCache,
    database::{Database, cursor_status},
    error::corrupt,
    format::{
        bodies,
        columns::Column,
        keys,
        meta::TrieExtent,
        records::{self, Changes, ReceiptSummary, StoredLog},
        side_block::{self, SideBlock},
    },
    read::{generation::Generations, outline::Outline, state_cache::StateCache},
};

/// The part of the store that is shared with state and trie readers, which outlive the call that made them.
pub(crate) struct Shared {
    pub(crate) database: Database,
    /// Replaced as a whole, after the write that it announces.
    pub(crate) head: ArcSwap<Head>,
    /// The oldest height whose state is complete. Raised before anything of older states is deleted.
    pub(crate) oldest_state: AtomicU64,
    /// Which states have their whole trie in the database.
    pub(crate) trie_extent: ArcSwap<TrieExtent>,
    /// Whether no checkpoint can lack a node. False for a folder that was created with format 1.
    pub(crate) has_exact_checkpoints: bool,
    pub(crate) generations: Generations,
    // By hash, so entries never become stale.
    pub(crate) headers: BoundedCache<B256, Arc<SealedHeader>>,
    pub(crate) blocks: BoundedCache<B256, Arc<RecoveredBlock>>,
    pub(crate) receipts: BoundedCache<B256, Arc<Vec<Receipt>>>,
    pub(crate) outlines: BoundedCache<B256, Arc<Outline>>,
    /// Tries of transactions and receipts, by block, kept after a proof from that block.
    pub(crate) list_tries: BoundedCache<B256, Arc<[ListTrie; 2]>>,
    pub(crate) trie_nodes: BoundedCache<B256, Bytes>,
    pub(crate) state_cache: StateCache,
}

/// The old states in a folder when it is opened.
pub(crate) struct StoredStates {
    pub(crate) oldest_state: u64,
    pub(crate) trie_extent: TrieExtent,
    pub(crate) has_exact_checkpoints: bool,
}

impl Shared {
    pub(crate) fn new(database: Database, head: Head, stored_states: StoredStates, options: &StoreOptions) -> Self {
        let part = options.block_cache_bytes / 12;
        Self {
            database,
            head: ArcSwap::from_pointee(head),
            oldest_state: AtomicU64::new(stored_states.oldest_state),
            trie_extent: ArcSwap::from_pointee(stored_states.trie_extent),
            has_exact_checkpoints: stored_states.has_exact_checkpoints,
            generations: Generations::default(),
            headers: BoundedCache::new(part),
            blocks: BoundedCache::new(part * 5),
            receipts: BoundedCache::new(part * 3),
            outlines: BoundedCache::new(part),
            list_tries: BoundedCache::new(part * 2),
            trie_nodes: BoundedCache::new(options.trie_cache_bytes),
            state_cache: StateCache::new(options.state_cache_bytes),
        }
    }

    /// Hash and time of a canonical block.
    pub(crate) fn canonical(&self, number: u64) -> Result<Option<(B256, u64)>, StoreError> {
        let Some(record) = self.database.get(Column::Canonical, &keys::number(number))? else { return Ok(None) };
        let canonical = records::decode_canonical(&record);
        canonical.map(Some).ok_or_else(|| corrupt(format!("canonical block {number}")))
    }

    /// Height of a block of any branch.
    pub(crate) fn number(&self, hash: B256) -> Result<Option<u64>, StoreError> {
        let Some(record) = self.database.get(Column::HeaderNumbers, hash.as_slice())? else { return Ok(None) };
        let number = <[u8; 8]>::try_from(&*record).map(u64::from_be_bytes);
        number.map(Some).map_err(|_| corrupt(format!("height of block {hash}")))
    }

    /// A header of any branch.
    pub(crate) fn header(&self, hash: B256) -> Result<Option<Arc<SealedHeader>>, StoreError> {
        if let Some(header) = self.headers.get(&hash) {
            return Ok(Some(header));
        }
        let Some(number) = self.number(hash)? else { return Ok(None) };
        let Some((header, _)) = self.read_header(number, hash)? else { return Ok(None) };
        let header = Arc::new(header);
        self.headers.insert(hash, Arc::clone(&header), header_weight(&header));
        Ok(Some(header))
    }

    /// A stored header with its total difficulty, bypassing the cache.
    pub(crate) fn read_header(&self, number: u64, hash: B256) -> Result<Option<(SealedHeader, U256)>, StoreError> {
        let Some(record) = self.database.get(Column::Headers, &keys::block(number, hash))? else { return Ok(None) };
        let damaged = || corrupt(format!("header of block {number} ({hash})"));
        let (total_difficulty, mut rlp) = records::decode_header(&record).ok_or_else(damaged)?;
        let header = tenon_chain::decode_header(&mut rlp).map_err(|_| damaged())?;
        // The key was derived from the hash of exactly these bytes; only `verify` hashes them again.
        Ok(Some((SealedHeader::new_unchecked(header, hash), total_difficulty)))
    }

    /// Sum of difficulties of a block of any branch.
    pub(crate) fn total_difficulty(&self, hash: B256) -> Result<Option<U256>, StoreError> {
        let Some(number) = self.number(hash)? else { return Ok(None) };
        let Some(record) = self.database.get(Column::Headers, &keys::block(number, hash))? else { return Ok(None) };
        let damaged = || corrupt(format!("header of block {number} ({hash})"));
        records::decode_header(&record).map(|(total_difficulty, _)| Some(total_difficulty)).ok_or_else(damaged)
    }

    /// A block of any branch.
    pub(crate) fn block(&self, hash: B256) -> Result<Option<Arc<RecoveredBlock>>, StoreError> {
        if let Some(block) = self.blocks.get(&hash) {
            return Ok(Some(block));
        }
        let Some(number) = self.number(hash)? else { return Ok(None) };
        let Some(block) = self.read_block(number, hash)? else { return Ok(None) };
        let block = Arc::new(block);
        self.blocks.insert(hash, Arc::clone(&block), block_weight(&block));
        Ok(Some(block))
    }

    /// A stored block, bypassing the cache.
    pub(crate) fn read_block(&self, number: u64, hash: B256) -> Result<Option<RecoveredBlock>, StoreError> {
        let key = keys::block(number, hash);
        let Some(header) = self.database.get(Column::Headers, &key)? else { return Ok(None) };
        let Some(body) = self.database.get(Column::Bodies, &key)? else { return Ok(None) };
        let damaged = || corrupt(format!("body of block {number} ({hash})"));
        let (_, header_rlp) = records::decode_header(&header).ok_or_else(damaged)?;
        let (senders, rlp) = bodies::decode_body(header_rlp, &body).ok_or_else(damaged)?;
        let block = tenon_chain::decode_block(&mut rlp.as_slice()).map_err(|_| damaged())?;
        if block.hash() != hash || senders.len() != block.transactions.len() {
            return Err(damaged());
        }
        Ok(Some(RecoveredBlock { block, senders }))
    }

    /// Receipts of a canonical block, without logs.
    pub(crate) fn receipt_summaries(&self, number: u64, hash: B256) -> Result<Option<Vec<ReceiptSummary>>, StoreError> {
        let Some(record) = self.database.get(Column::Receipts, &keys::block(number, hash))? else { return Ok(None) };
        let damaged = || corrupt(format!("receipts of block {number} ({hash})"));
        records::decode_receipts(&record).map(Some).ok_or_else(damaged)
    }

    /// Receipts of an executed block: a canonical one, one removed from the chain, or an executed side block.
    pub(crate) fn receipts(&self, hash: B256) -> Result<Option<Arc<Vec<Receipt>>>, StoreError> {
        if let Some(receipts) = self.receipts.get(&hash) {
            return Ok(Some(receipts));
        }
        let Some(number) = self.number(hash)? else { return Ok(None) };
        let token = self.generations.observe(number)?;
        let Some(receipts) = self.read_receipts(number, hash).and_then(|receipts| {
            // Apparent corruption may be due to an unwind.
            self.generations.check(token, number)?;
            Ok(receipts)
        })?
        else {
            return Ok(self.side_block(number, hash)?.map(|block| Arc::new(block.receipts)));
        };
        let receipts = Arc::new(receipts);
        self.receipts.insert(hash, Arc::clone(&receipts), receipts_weight(&receipts));
        Ok(Some(receipts))
    }

    /// Stored receipts, bypassing the cache.
    pub(crate) fn read_receipts(&self, number: u64, hash: B256) -> Result<Option<Vec<Receipt>>, StoreError> {
        let Some(summaries) = self.receipt_summaries(number, hash)? else { return Ok(None) };
        let total: u64 = summaries.iter().map(|summary| summary.log_count).sum();
        let mut logs = self.logs_of_block(number, 0, total)?.into_iter();
        let mut receipts = Vec::with_capacity(summaries.len());
        for summary in summaries {
            let own: Vec<Log> = logs
                .by_ref()
                .take(usize::try_from(summary.log_count).unwrap_or(usize::MAX))
                .map(|stored| stored.log)
                .collect();
            receipts.push(summary.with_logs(own));
        }
        Ok(Some(receipts))
    }

    /// The records kept of a block that was removed from the chain, or executed beside it; `None` for any other.
    pub(crate) fn side_block(&self, number: u64, hash: B256) -> Result<Option<SideBlock>, StoreError> {
        let Some(record) = self.database.get(Column::Receipts, &keys::side_block(number, hash))? else {
            return Ok(None);
        };
        let damaged = || corrupt(format!("records of side block {number} ({hash})"));
        side_block::decode(&record).map(Some).ok_or_else(damaged)
    }

    /// The changes of a block; `None` if they were pruned.
    pub(crate) fn changes(&self, number: u64) -> Result<Option<Changes>, StoreError> {
        let Some(record) = self.database.get(Column::Changes, &keys::number(number))? else { return Ok(None) };
        records::decode_changes(&record).map(Some).ok_or_else(|| corrupt(format!("changes of block {number}")))
    }

    /// `count` logs of a canonical block from position `first` on; fewer mean corruption.
    pub(crate) fn logs_of_block(&self, number: u64, first: u64, count: u64) -> Result<Vec<StoredLog>, StoreError> {
        let mut logs = Vec::new();
        if count == 0 {
            return Ok(logs);
        }
        let damaged = || corrupt(format!("logs of block {number}"));
        let position = |position: u64| u32::try_from(position).map_err(|_| damaged());
        let (from, to) = (position(first)?, position(first.saturating_add(count))?);
        let mut cursor =
            self.database.range_cursor(Column::Logs, &keys::log(number, from), Some(&keys::log(number, to)))?;
        while let Some(value) = cursor.value() {
            logs.push(records::decode_log(value).ok_or_else(damaged)?);
            cursor.next();
        }
        cursor_status(&cursor)?;
        if logs.len() as u64 == count { Ok(logs) } else { Err(damaged()) }
    }

    /// Height and position of a transaction of the canonical chain.
    pub(crate) fn transaction(&self, hash: B256) -> Result<Option<(u64, u32)>, StoreError> {
        let Some(record) = self.database.get(Column::Transactions, hash.as_slice())? else { return Ok(None) };
        records::decode_location(&record).map(Some).ok_or_else(|| corrupt(format!("place of transaction {hash}")))
    }

    /// The code with this hash.
    pub(crate) fn code(&self, hash: B256) -> Result<Option<Bytes>, StoreError> {
        if hash == EMPTY_CODE_HASH {
            return Ok(Some(Bytes::new()));
        }
        let code = self.database.get(Column::Codes, hash.as_slice())?;
        Ok(code.map(|code| Bytes::copy_from_slice(&code)))
    }

    /// The oldest height whose state can be read.
    pub(crate) fn oldest_state(&self) -> u64 {
        self.oldest_state.load(Ordering::Acquire)
    }
}

impl Shared {
    /// A stored trie node, bypassing the cache.
    pub(crate) fn stored_node(
        &self,
        owner: Option<B256>,
        path: &[u8],
        hash: B256,
    ) -> Result<Option<Bytes>, StoreError> {
        let key = keys::trie_node(owner, path, hash);
        if let Some(record) = self.database.get(Column::Trie, &key)? {
            let node = records::decode_latest(&record).map(|(_, rlp)| Bytes::copy_from_slice(rlp));
            return node.map(Some).ok_or_else(|| corrupt(format!("trie node {hash}")));
        }
        let record = self.database.get(Column::TrieCheckpoints, &key)?;
        Ok(record.map(|rlp| Bytes::copy_from_slice(&rlp)))
    }
}

impl TrieReader for Shared {
    fn node(&self, owner: Option<B256>, path: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
        // Nodes are cached by hash; the position matters only for storage.
        if let Some(node) = self.trie_nodes.get(&hash) {
            return Ok(Some(node));
        }
        let node = self.stored_node(owner, path, hash)?;
        if let Some(node) = &node {
            self.trie_nodes.insert(hash, node.clone(), node.len());
        }
        Ok(node)
    }
}

/// Approximate memory of a decoded header.
pub(crate) fn header_weight(header: &SealedHeader) -> usize {
    let native = header.native_seal.as_ref();
    let seal = native.map_or(0, |seal| seal.validators.len() + seal.validator.len() + seal.penalties.len());
    900 + header.extra_data.len() + seal
}

/// Approximate memory of a decoded block: its encoding and 400 bytes per transaction.
pub(crate) fn block_weight(block: &RecoveredBlock) -> usize {
    1_000 + usize::try_from(block.size).unwrap_or(usize::MAX / 2) + 400 * block.transactions.len()
}

/// Approximate memory of decoded receipts.
pub(crate) fn receipts_weight(receipts: &[Receipt]) -> usize {
    let log = |log: &Log| 100 + 32 * log.topics.len() + log.data.len();
    receipts.iter().map(|receipt| 80 + receipt.logs.iter().map(log).sum::<usize>()).sum()
}
