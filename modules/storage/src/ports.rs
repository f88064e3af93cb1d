//! The store's implementation of the port traits of readers. That of the writer is in `writer`.

use std::{ops::ControlFlow, sync::Arc};

use alloy_primitives::{Address, B256, U256};
use delegate::delegate;
use tenon_api::{
    Allowance, BlockNumber, ChainReader, EncodedChainReader, Head, LocatedLog, LogFilter, Receipt, RecoveredBlock,
    SealedHeader, StateReader, StoreError, TrieReader,
};

use crate::{
    read::{
        branch::{self, BranchState},
        listing,
        log_search::LogSearch,
        old_trie::OldTrie,
        state::StateAt,
    },
    store::Store,
};

impl Store {
    /// The head's height.
    pub(crate) fn head_number(&self) -> u64 {
        self.shared.head.load().number().0
    }

    /// Reads from the state after a block without allocating the state: point reads are the most frequent request.
    pub(crate) fn with_state_at<T>(
        &self,
        number: BlockNumber,
        read: impl FnOnce(&dyn StateReader) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        read(&StateAt::new(&self.shared, number)?)
    }

    /// [`Store::with_state_at`] for the state after the head.
    pub(crate) fn with_state_of_head<T>(
        &self,
        read: impl FnOnce(&dyn StateReader) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        read(&StateAt::of_head(&self.shared)?)
    }

    /// The hash of the canonical block of a height, up to the head. A commit writes the block before it moves the head.
    /// Without this limit, a client could find a transaction of the new block, and then read the latest state of the
    /// block before it.
    fn hash_on_chain(&self, number: u64) -> Result<Option<B256>, StoreError> {
        self.shared.generations.together(|| {
            if number > self.head_number() {
                return Ok(None);
            }
            Ok(self.shared.canonical(number)?.map(|(hash, _)| hash))
        })
    }
}

impl ChainReader for Store {
    fn head(&self) -> Arc<Head> {
        self.shared.head.load_full()
    }

    fn canonical_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError> {
        self.hash_on_chain(number.0)
    }

    fn transaction_location(&self, transaction_hash: B256) -> Result<Option<(B256, u64)>, StoreError> {
        self.shared.generations.together(|| {
            let Some((number, index)) = self.shared.transaction(transaction_hash)? else { return Ok(None) };
            Ok(self.hash_on_chain(number)?.map(|hash| (hash, u64::from(index))))
        })
    }

    fn state_at(&self, number: BlockNumber) -> Result<Arc<dyn StateReader>, StoreError> {
        Ok(Arc::new(StateAt::new(&self.shared, number)?))
    }

    fn slots_of(&self, address: Address, max: usize) -> Result<Option<Vec<B256>>, StoreError> {
        listing::slots(&self.shared, address, max)
    }

    fn state_of_branch(&self, block: &SealedHeader) -> Result<Option<Arc<dyn StateReader>>, StoreError> {
        let state = BranchState::open(&self.shared, block)?;
        Ok(state.map(|state| Arc::new(state) as Arc<dyn StateReader>))
    }

    fn slots_of_branch(&self, block: &SealedHeader, address: Address) -> Result<Vec<B256>, StoreError> {
        branch::changed_slots(&self.shared, block, address)
    }

    fn trie(&self) -> Arc<dyn TrieReader> {
        Arc::clone(&self.shared) as Arc<dyn TrieReader>
    }

    fn trie_of(&self, block: &SealedHeader, caller: Arc<dyn Allowance>) -> Result<Arc<dyn TrieReader>, StoreError> {
        let whole_from = self.shared.whole_tries_from();
        let head = self.head();
        // Blocks near the edge of the window are excluded, because they may leave the window meanwhile. While the head
        // is old, all blocks are excluded, because a group of old blocks thins every block up to the head.
        let middle = whole_from + head.header.number.saturating_sub(whole_from) / 2;
        let is_far_inside = block.number >= middle && self.group_size(&head.header) == 1;
        if is_far_inside || self.hash_on_chain(block.number)? != Some(block.hash()) {
            return Ok(self.trie());
        }
        Ok(Arc::new(OldTrie::of(&self.shared, block, caller)))
    }

    fn logs(
        &self,
        from: BlockNumber,
        to: BlockNumber,
        filter: &LogFilter,
        limit: usize,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<LocatedLog>, StoreError> {
        LogSearch { from: from.0, to: to.0, filter, limit, is_cancelled }.run(&self.shared)
    }

    delegate! {
        to self.shared {
            fn header(&self, hash: B256) -> Result<Option<Arc<SealedHeader>>, StoreError>;
            fn block(&self, hash: B256) -> Result<Option<Arc<RecoveredBlock>>, StoreError>;
            fn receipts(&self, hash: B256) -> Result<Option<Arc<Vec<Receipt>>>, StoreError>;
            fn total_difficulty(&self, hash: B256) -> Result<Option<U256>, StoreError>;
        }
    }
}

impl EncodedChainReader for Store {
    fn encoded_headers(
        &self,
        first: BlockNumber,
        take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.shared.encoded_headers(first.0, take)
    }

    fn encoded_bodies(
        &self,
        hashes: &[B256],
        take: &mut dyn FnMut(&[&[u8]]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.shared.encoded_bodies(hashes, take)
    }
}
