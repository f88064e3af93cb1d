//! A chain in memory behind [`ChainReader`], for the tests and benches of crates that read chains.
//!
//! Owns blocks or headers, their total difficulties, which of them are canonical, and one [`FixedState`], which
//! can also be used without a chain. [`MemoryRecords`] are an engine's records.
//!
//! Invariant: it executes and checks nothing, so a test determines the contents of the chain. It has no receipts, logs
//! or trie, and one state for all heights; a test that needs those uses the real store.
//!
//! ```
//! use tenon_api::{BlockNumber, ChainReader, Header, SealedHeader, B256};
//! use tenon_memory_chain::MemoryChain;
//!
//! let chain = MemoryChain::default();
//! chain.push_header(SealedHeader::new_unchecked(Header::default(), B256::repeat_byte(1)));
//! assert_eq!(chain.head().number(), BlockNumber(0));
//! ```

#![forbid(unsafe_code)]

pub mod network_ports;
mod records;
mod state;
pub mod transactions;

use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
    sync::Arc,
};

use parking_lot::RwLock;
use tenon_api::{
    Account, Address, B256, BlockNumber, ChainReader, EncodedChainReader, Head, LocatedLog, LogFilter, Receipt,
    RecoveredBlock, SealedHeader, StateReader, StoreError, TrieReader, U256,
};

pub use records::MemoryRecords;
pub use state::FixedState;

#[derive(Default)]
struct Contents {
    headers: HashMap<B256, (Arc<SealedHeader>, U256)>,
    blocks: HashMap<B256, Arc<RecoveredBlock>>,
    canonical: BTreeMap<u64, B256>,
    head: B256,
    finalized: Option<BlockNumber>,
    safe: Option<BlockNumber>,
    state: Option<Arc<FixedState>>,
}

impl Contents {
    fn insert(&mut self, header: SealedHeader) {
        let before = self.headers.get(&header.parent_hash).map_or(U256::ZERO, |(_, total)| *total);
        let total = before + header.difficulty;
        self.headers.insert(header.hash(), (Arc::new(header), total));
    }

    /// Makes a stored header the head, and its stored ancestors canonical.
    fn set_head(&mut self, hash: B256) {
        self.head = hash;
        let mut next = Some(hash);
        let mut above = None;
        while let Some((header, _)) = next.and_then(|hash| self.headers.get(&hash)) {
            let known = self.canonical.insert(header.number, header.hash());
            above.get_or_insert(header.number + 1);
            if known == Some(header.hash()) {
                break;
            }
            next = Some(header.parent_hash);
        }
        if let Some(above) = above {
            self.canonical.split_off(&above);
        }
    }
}

/// Blocks and headers added by a test. Initially empty and without a state; reading the head of an empty chain panics.
#[derive(Default)]
pub struct MemoryChain {
    contents: RwLock<Contents>,
}

impl MemoryChain {
    /// An empty chain with these accounts as its state at every height.
    pub fn with_accounts(accounts: impl IntoIterator<Item = (Address, Account)>) -> Self {
        let state = FixedState { accounts: accounts.into_iter().collect(), ..FixedState::default() };
        Self { contents: RwLock::new(Contents { state: Some(Arc::new(state)), ..Contents::default() }) }
    }

    /// Adds a block with any parent as the new head.
    pub fn push(&self, block: Arc<RecoveredBlock>) {
        let mut contents = self.contents.write();
        let hash = block.hash();
        contents.insert(block.header.clone());
        contents.blocks.insert(hash, block);
        contents.set_head(hash);
    }

    /// Adds a header without its block as the new head.
    pub fn push_header(&self, header: SealedHeader) {
        let mut contents = self.contents.write();
        let hash = header.hash();
        contents.insert(header);
        contents.set_head(hash);
    }

    /// Adds a header that is not canonical.
    pub fn insert_side_header(&self, header: SealedHeader) {
        self.contents.write().insert(header);
    }

    /// Makes a stored block or header the head again; those above it are no longer canonical.
    pub fn set_head(&self, hash: B256) {
        self.contents.write().set_head(hash);
    }

    /// Sets the head's finality.
    pub fn set_finality(&self, finalized: Option<BlockNumber>, safe: Option<BlockNumber>) {
        let mut contents = self.contents.write();
        (contents.finalized, contents.safe) = (finalized, safe);
    }

    /// Changes an account of the state, which the first change creates.
    pub fn change_account(&self, address: Address, change: impl FnOnce(&mut Account)) {
        let mut contents = self.contents.write();
        change(Arc::make_mut(contents.state.get_or_insert_default()).accounts.entry(address).or_default());
    }
}

impl ChainReader for MemoryChain {
    fn head(&self) -> Arc<Head> {
        let contents = self.contents.read();
        let (header, total_difficulty) = contents.headers[&contents.head].clone();
        Arc::new(Head { header, total_difficulty, finalized: contents.finalized, safe: contents.safe })
    }

    fn canonical_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError> {
        Ok(self.contents.read().canonical.get(&number.0).copied())
    }

    fn header(&self, hash: B256) -> Result<Option<Arc<SealedHeader>>, StoreError> {
        Ok(self.contents.read().headers.get(&hash).map(|(header, _)| Arc::clone(header)))
    }

    fn block(&self, hash: B256) -> Result<Option<Arc<RecoveredBlock>>, StoreError> {
        Ok(self.contents.read().blocks.get(&hash).cloned())
    }

    fn receipts(&self, _: B256) -> Result<Option<Arc<Vec<Receipt>>>, StoreError> {
        Ok(None)
    }

    fn total_difficulty(&self, hash: B256) -> Result<Option<U256>, StoreError> {
        Ok(self.contents.read().headers.get(&hash).map(|(_, total)| *total))
    }

    fn transaction_location(&self, transaction_hash: B256) -> Result<Option<(B256, u64)>, StoreError> {
        let contents = self.contents.read();
        let found = contents.canonical.values().find_map(|hash| {
            let block = contents.blocks.get(hash)?;
            let index = block.transactions.iter().position(|transaction| transaction.hash == transaction_hash)?;
            Some((*hash, index as u64))
        });
        Ok(found)
    }

    fn state_at(&self, number: BlockNumber) -> Result<Arc<dyn StateReader>, StoreError> {
        match &self.contents.read().state {
            Some(state) => Ok(Arc::<FixedState>::clone(state)),
            None => Err(StoreError::UnknownBlock { what: number.to_string() }),
        }
    }

    fn trie(&self) -> Arc<dyn TrieReader> {
        Arc::new(HashMap::new())
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

impl EncodedChainReader for MemoryChain {
    fn encoded_headers(
        &self,
        first: BlockNumber,
        take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let contents = self.contents.read();
        let headers = contents.canonical.range(first.0..).filter_map(|(_, hash)| contents.headers.get(hash));
        for (header, _) in headers {
            let mut encoded = Vec::new();
            tenon_chain::encode_header(header, &mut encoded);
            if take(&encoded).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn encoded_bodies(
        &self,
        hashes: &[B256],
        take: &mut dyn FnMut(&[&[u8]]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let contents = self.contents.read();
        for block in hashes.iter().filter_map(|hash| contents.blocks.get(hash)) {
            let (mut transactions, mut uncles) = (Vec::new(), Vec::new());
            for transaction in &block.transactions {
                tenon_chain::encode_list_transaction(transaction, &mut transactions);
            }
            block.ommers.iter().for_each(|header| tenon_chain::encode_header(header, &mut uncles));
            if take(&[&list(&[list(&transactions), list(&uncles)].concat())]).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// An RLP list with this content.
fn list(content: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    alloy_rlp::Header { list: true, payload_length: content.len() }.encode(&mut encoded);
    encoded.extend_from_slice(content);
    encoded
}
