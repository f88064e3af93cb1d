//! Signing transactions: masternodes send them to the contract 0x89 to state that they have seen a block
//! (`docs/spec/consensus.md` 10.1). Penalties and rewards of both engines count them.

use std::{num::NonZeroUsize, sync::Arc};

use alloy_primitives::address;
use lru::LruCache;
use parking_lot::Mutex;
use tenon_api::{Address, B256, ChainReader, Receipt, RecoveredBlock, StoreError, Transaction};

use crate::header_link::HeaderLink;

/// The contract that receives signing transactions.
pub const BLOCK_SIGNERS: Address = address!("0000000000000000000000000000000000000089");
/// Selector of `sign(uint256,bytes32)`.
pub(super) const SELECTOR: [u8; 4] = [0xe3, 0x41, 0xea, 0xa4];
/// Length of the data of a signing transaction: selector, number, hash.
const INPUT_BYTES: usize = 68;
/// Only blocks with a number that is a multiple of this are signed and counted.
pub const MERGE_SIGN_RANGE: u64 = 15;
/// Number of blocks at the end of an epoch in which a penalised masternode can return by signing.
pub(crate) const RETURN_RANGE: usize = 150;
/// Number of blocks with cached data: the two epochs of 900 blocks that one reward needs and the one that is imported
/// until the next reward, with room for late epoch switches.
const BLOCK_CACHE_SIZE: NonZeroUsize = NonZeroUsize::new(4_096).unwrap();

/// A signing transaction, reduced to what consensus uses. The number in its data is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SigningTransaction {
    /// The signed block.
    pub block: B256,
    /// The signer.
    pub signer: Address,
}

/// Returns whether a transaction is a signing transaction, by receiver, length of the data and selector.
pub fn is_signing_transaction(transaction: &Transaction) -> bool {
    transaction.to == Some(BLOCK_SIGNERS)
        && transaction.input.len() == INPUT_BYTES
        && transaction.input.starts_with(&SELECTOR)
}

/// The signing transactions of a block, in order. With `receipts`, only transactions that did not fail count (before
/// `tipSigning`, `docs/spec/chain.md` 4.3).
pub fn signing_transactions(block: &RecoveredBlock, receipts: Option<&[Receipt]>) -> Vec<SigningTransaction> {
    let has_failed = |index: usize| match receipts {
        Some(receipts) => receipts.get(index).is_none_or(|receipt| receipt.succeeded() == Some(false)),
        None => false,
    };
    let transactions = block.transactions.iter().zip(&block.senders).enumerate();
    transactions
        .filter(|(index, (transaction, _))| is_signing_transaction(transaction) && !has_failed(*index))
        .map(|(_, (transaction, signer))| {
            let block = B256::from_slice(&transaction.input[INPUT_BYTES - B256::len_bytes()..]);
            SigningTransaction { block, signer: *signer }
        })
        .collect()
}

/// Which signing transactions count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SigningTransactionFilter {
    /// All signing transactions of a block.
    All,
    /// Those that did not fail; the reward's rule before `tipSigning`, when they were executed as ordinary calls.
    Successful,
}

type TransactionCache = LruCache<(B256, SigningTransactionFilter), Arc<[SigningTransaction]>>;

/// Caches the signing transactions of recent blocks and the parts of their headers that walks need, so that an epoch
/// switch does not have to read two epochs of blocks. Keyed by block hash, so it is correct on every branch.
///
/// Look-ups do not count as use, so entries are evicted in the order of insertion. Walks go from new to old blocks:
/// with eviction by last use, the newest blocks, which the next walk needs, would be dropped before old ones.
pub struct SigningIndex {
    /// Locked for a look-up or an insertion only, never while a block is read.
    transactions: Mutex<TransactionCache>,
    /// Locked like `transactions`.
    links: Mutex<LruCache<B256, HeaderLink>>,
}

impl Default for SigningIndex {
    fn default() -> Self {
        let (transactions, links) = (LruCache::new(BLOCK_CACHE_SIZE), LruCache::new(BLOCK_CACHE_SIZE));
        Self { transactions: Mutex::new(transactions), links: Mutex::new(links) }
    }
}

impl SigningIndex {
    /// Caches the signing transactions and the link of a block that is in memory.
    pub fn observe(&self, block: &RecoveredBlock) {
        let link = HeaderLink::new(&block.header);
        self.links.lock().put(link.hash, link);
        let found = signing_transactions(block, None).into();
        self.transactions.lock().put((block.hash(), SigningTransactionFilter::All), found);
    }

    /// The link of a header, from the cache or the database; `None` if the header is not stored.
    ///
    /// # Errors
    /// [`StoreError`]
    pub(crate) fn link(&self, hash: B256, chain: &dyn ChainReader) -> Result<Option<HeaderLink>, StoreError> {
        if let Some(link) = self.links.lock().peek(&hash) {
            return Ok(Some(link.clone()));
        }
        let Some(header) = chain.header(hash)? else { return Ok(None) };
        let link = HeaderLink::new(&header);
        self.links.lock().put(hash, link.clone());
        Ok(Some(link))
    }

    /// The signing transactions of a block, from the cache or the database.
    ///
    /// # Errors
    /// [`StoreError`] if the block or its receipts are missing.
    pub fn of(
        &self,
        hash: B256,
        filter: SigningTransactionFilter,
        chain: &dyn ChainReader,
    ) -> Result<Arc<[SigningTransaction]>, StoreError> {
        let key = (hash, filter);
        if let Some(found) = self.transactions.lock().peek(&key) {
            return Ok(Arc::clone(found));
        }
        let unknown = |what: &str| StoreError::UnknownBlock { what: format!("{what}{hash}") };
        let block = chain.block(hash)?.ok_or_else(|| unknown(""))?;
        let found: Arc<[_]> = match filter {
            SigningTransactionFilter::All => signing_transactions(&block, None).into(),
            SigningTransactionFilter::Successful
                if block.transactions.iter().any(|transaction| is_signing_transaction(transaction)) =>
            {
                let receipts = chain.receipts(hash)?.ok_or_else(|| unknown("receipts of "))?;
                signing_transactions(&block, Some(&receipts)).into()
            }
            SigningTransactionFilter::Successful => Arc::default(),
        };
        self.transactions.lock().put(key, Arc::clone(&found));
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use tenon_api::Header;

    use super::*;
    use crate::recorded_chain::RecordedChain;

    #[test]
    fn a_walk_from_new_to_old_blocks_does_not_drop_the_newest_first() {
        let chain = RecordedChain::local();
        let index = SigningIndex::default();
        let put = |numbers: std::ops::Range<usize>| {
            for number in numbers {
                let header = tenon_chain::seal(Header { number: number as u64, ..Header::default() });
                index.links.lock().put(header.hash(), HeaderLink::new(&header));
            }
        };
        let (room, recorded) = (BLOCK_CACHE_SIZE.get(), chain.blocks.len());
        put(0..room - recorded);
        chain.blocks.iter().for_each(|block| index.observe(block));
        for block in chain.blocks.iter().rev() {
            assert_eq!(index.link(block.hash(), &*chain).unwrap(), Some(HeaderLink::new(&block.header)));
        }

        put(room..room + (room - recorded) + recorded / 2);

        let nothing = RecordedChain::of_headers(Arc::clone(&chain.spec), Vec::new());
        let is_cached = |block: &RecoveredBlock| index.link(block.hash(), &*nothing).unwrap().is_some();
        assert!(is_cached(&chain.blocks[recorded - 1]) && !is_cached(&chain.blocks[0]));
    }
}
