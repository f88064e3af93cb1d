//! A chain in memory for the tests of this crate.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use tenon_api::{
    Account, Address, B256, Block, BlockNumber, Bytes, ChainReader, Head, Header, LocatedLog, LogFilter, Receipt,
    RecoveredBlock, SealedHeader, StateReader, StoreError, TrieReader, U256,
};

#[derive(Default)]
struct Contents {
    blocks: HashMap<B256, (Arc<RecoveredBlock>, U256)>,
    head: B256,
    nonces: HashMap<Address, u64>,
}

/// Blocks with their total difficulties, and a state of nonces.
pub(crate) struct FakeChain {
    contents: Mutex<Contents>,
}

impl FakeChain {
    pub(crate) fn starting_at(genesis: &SealedHeader) -> Self {
        let chain = Self { contents: Mutex::default() };
        chain.add(block_of(genesis.clone(), Vec::new()));
        chain
    }

    /// Adds a block and makes it the head.
    pub(crate) fn add(&self, block: Block) {
        let mut contents = self.contents.lock().unwrap();
        let parent = contents.blocks.get(&block.header.parent_hash).map_or(U256::ZERO, |(_, total)| *total);
        let (hash, total) = (block.hash(), parent + block.header.difficulty);
        contents.blocks.insert(hash, (Arc::new(RecoveredBlock { block, senders: Vec::new() }), total));
        contents.head = hash;
    }

    pub(crate) fn set_nonce(&self, address: Address, nonce: u64) {
        self.contents.lock().unwrap().nonces.insert(address, nonce);
    }
}

/// A block without transactions.
pub(crate) fn block_of(header: SealedHeader, ommers: Vec<Header>) -> Block {
    Block { header, transactions: Vec::new(), ommers, withdrawals: None, size: 600 }
}

impl ChainReader for FakeChain {
    fn head(&self) -> Arc<Head> {
        let contents = self.contents.lock().unwrap();
        let (block, total_difficulty) = contents.blocks[&contents.head].clone();
        let header = Arc::new(block.header.clone());
        Arc::new(Head { header, total_difficulty, finalized: None, safe: None })
    }

    fn canonical_hash(&self, _: BlockNumber) -> Result<Option<B256>, StoreError> {
        Ok(None)
    }

    fn header(&self, hash: B256) -> Result<Option<Arc<SealedHeader>>, StoreError> {
        Ok(self.block(hash)?.map(|block| Arc::new(block.header.clone())))
    }

    fn block(&self, hash: B256) -> Result<Option<Arc<RecoveredBlock>>, StoreError> {
        Ok(self.contents.lock().unwrap().blocks.get(&hash).map(|(block, _)| Arc::clone(block)))
    }

    fn receipts(&self, _: B256) -> Result<Option<Arc<Vec<Receipt>>>, StoreError> {
        Ok(None)
    }

    fn total_difficulty(&self, hash: B256) -> Result<Option<U256>, StoreError> {
        Ok(self.contents.lock().unwrap().blocks.get(&hash).map(|(_, total)| *total))
    }

    fn transaction_location(&self, _: B256) -> Result<Option<(B256, u64)>, StoreError> {
        Ok(None)
    }

    fn state_at(&self, _: BlockNumber) -> Result<Arc<dyn StateReader>, StoreError> {
        Ok(Arc::new(FakeState { nonces: self.contents.lock().unwrap().nonces.clone() }))
    }

    fn trie(&self) -> Arc<dyn TrieReader> {
        Arc::new(NoTrie)
    }

    fn logs(
        &self,
        _: BlockNumber,
        _: BlockNumber,
        _: &LogFilter,
        _: usize,
        _: &dyn Fn() -> bool,
    ) -> Result<Vec<LocatedLog>, StoreError> {
        Ok(Vec::new())
    }
}

struct FakeState {
    nonces: HashMap<Address, u64>,
}

impl StateReader for FakeState {
    fn account(&self, address: Address) -> Result<Option<Account>, StoreError> {
        Ok(self.nonces.get(&address).map(|nonce| Account { nonce: *nonce, ..Account::default() }))
    }

    fn storage(&self, _: Address, _: B256) -> Result<U256, StoreError> {
        Ok(U256::ZERO)
    }

    fn code(&self, _: B256) -> Result<Option<Bytes>, StoreError> {
        Ok(None)
    }

    fn block_hash(&self, _: BlockNumber) -> Result<Option<B256>, StoreError> {
        Ok(None)
    }
}

struct NoTrie;

impl TrieReader for NoTrie {
    fn node(&self, _: Option<B256>, _: &[u8], _: B256) -> Result<Option<Bytes>, StoreError> {
        Ok(None)
    }
}
