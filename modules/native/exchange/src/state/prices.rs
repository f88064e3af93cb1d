//! Prices of order books for contracts (`docs/spec/chain.md` 5.4).

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
};

use alloy_primitives::{Address, B256};
use tenon_api::{ChainReader, ConsensusEngine, ConsensusError, SealedHeader, StoreError, TrieReader};
use tenon_chain::TrieError;
use tenon_native_spec::NativeSettings;

use super::{TradingState, stored_record};
use crate::{ExchangeError, LAST_INACTIVE_BLOCK, Wide, opening::roots_of, order::book_of};

/// Prices of an order book, in units of its quote token; zero if there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BookPrices {
    /// The price of the last trade.
    pub last: Wide,
    /// The average price of the previous epoch.
    pub before_epoch: Wide,
}

/// The prices for the contracts of one block. Nothing is read until a contract requests a price.
#[derive(Clone)]
pub struct Prices {
    /// Changes of the block's own step, which are not stored yet.
    touched: BTreeMap<B256, BookPrices>,
    nodes: Arc<dyn TrieReader>,
    root: Root,
}

/// Source of the stored trading state's root.
#[derive(Clone)]
enum Root {
    Known(B256),
    /// Stated by this block of the chain. Its body is read once.
    StatedBy {
        chain: Arc<dyn ChainReader>,
        engine: Arc<dyn ConsensusEngine>,
        block: B256,
        found: OnceLock<B256>,
    },
}

impl Prices {
    /// The prices after the step of an executed block: its changes, over its parent's state.
    pub(crate) fn after_step(trading: &TradingState<'_>, nodes: Arc<dyn TrieReader>, parent_root: B256) -> Self {
        Self { touched: trading.touched_prices(), nodes, root: Root::Known(parent_root) }
    }

    /// The prices for a call after `block`, in an EVM with height `number`: the trading state stated by the block.
    /// `None` while the exchange is inactive.
    pub fn of_call(
        native: &NativeSettings,
        chain: &Arc<dyn ChainReader>,
        engine: &Arc<dyn ConsensusEngine>,
        block: &SealedHeader,
        number: u64,
    ) -> Option<Self> {
        native.heights.has_exchange(number).then(|| Self::stated_by(chain, engine, block))
    }

    /// The prices for transactions that the reference replays before a traced one: those of the parent's state, because
    /// the replay skips the exchange's step. The traced transaction itself gets none.
    pub fn of_replay(
        native: &NativeSettings,
        chain: &Arc<dyn ChainReader>,
        engine: &Arc<dyn ConsensusEngine>,
        parent: &SealedHeader,
    ) -> Option<Self> {
        let has_state = parent.number >= native.heights.tip_xdcx && parent.number > LAST_INACTIVE_BLOCK;
        let is_told = has_state && native.heights.has_exchange(parent.number + 1);
        is_told.then(|| Self::stated_by(chain, engine, parent))
    }

    fn stated_by(chain: &Arc<dyn ChainReader>, engine: &Arc<dyn ConsensusEngine>, block: &SealedHeader) -> Self {
        let root = Root::StatedBy {
            chain: Arc::clone(chain),
            engine: Arc::clone(engine),
            block: block.hash(),
            found: OnceLock::new(),
        };
        Self { touched: BTreeMap::new(), nodes: chain.trie(), root }
    }

    /// The prices of a pair's book.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if a node of the trading state is missing or corrupt, [`StoreError::Pruned`] if the
    /// state has been pruned in the meantime.
    pub fn of_pair(&self, base: Address, quote: Address) -> Result<BookPrices, StoreError> {
        let book = book_of(base, quote);
        if let Some(prices) = self.touched.get(&book) {
            return Ok(*prices);
        }
        let record = stored_record(&*self.nodes, self.root.get()?, book).map_err(|error| self.root.failure(error))?;
        Ok(record.map_or_else(BookPrices::default, |record| record.prices()))
    }
}

impl Root {
    fn get(&self) -> Result<B256, StoreError> {
        let (chain, engine, hash, found) = match self {
            Self::Known(root) => return Ok(*root),
            Self::StatedBy { chain, engine, block, found } => (chain, engine, *block, found),
        };
        if let Some(root) = found.get() {
            return Ok(*root);
        }
        let missing = || StoreError::UnknownBlock { what: hash.to_string() };
        let block = chain.block(hash)?.ok_or_else(missing)?;
        let unclear = |error: ConsensusError| damaged(&error);
        let author = engine.author(&block.header).map_err(unclear)?;
        Ok(*found.get_or_init(|| roots_of(&block, author).0))
    }

    /// The error for a record that could not be read below this root.
    fn failure(&self, error: ExchangeError) -> StoreError {
        match error {
            ExchangeError::Store(error) | ExchangeError::Trie(TrieError::Store(error)) => error,
            ExchangeError::Trie(error @ TrieError::Missing { .. }) => self.pruned().unwrap_or_else(|| damaged(&error)),
            error => damaged(&error),
        }
    }

    /// Returns the error for the state of the block that states this root if that state is gone; `None` if it is not.
    fn pruned(&self) -> Option<StoreError> {
        let Self::StatedBy { chain, block, .. } = self else { return None };
        let number = chain.header(*block).ok()??.number;
        chain.state_at(number.into()).err()
    }
}

fn damaged(problem: &dyn std::fmt::Display) -> StoreError {
    StoreError::Corrupt { what: format!("the trading state of the historic exchange: {problem}") }
}

impl super::Record {
    const fn prices(&self) -> BookPrices {
        BookPrices { last: self.last_price, before_epoch: self.price_before_epoch }
    }
}

impl TradingState<'_> {
    fn touched_prices(&self) -> BTreeMap<B256, BookPrices> {
        self.books.iter().map(|(book, known)| (*book, known.record.prices())).collect()
    }
}

impl Prices {
    /// The prices of the books of these pairs. Reading another pair's prices fails, because the root has no nodes.
    pub fn of_books(books: &[(Address, Address, BookPrices)], root: B256) -> Self {
        let touched = books.iter().map(|(base, quote, prices)| (book_of(*base, *quote), *prices)).collect();
        Self { touched, nodes: Arc::new(HashMap::new()), root: Root::Known(root) }
    }
}
