//! What contracts are told of the trading state: prices of its books (`docs/spec/chain.md` 5.4).

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use alloy_primitives::{Address, B256};
use tenon_api::{ChainReader, ConsensusEngine, ConsensusError, SealedHeader, StoreError, TrieReader};
use tenon_chain::{NativeSettings, TrieError};

use super::{
    super::{ExchangeError, QUIET_UNTIL, amounts::Wide, opening::roots_of, order::book_of},
    TradingState, stored_record,
};
use crate::native::interception::is_exchange_received;

/// Prices of an order book, in units of its quote token; zero where there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BookPrices {
    /// Of the last trade.
    pub(in crate::native) last: Wide,
    /// The average of the epoch before.
    pub(in crate::native) before_epoch: Wide,
}

/// The prices that the contracts of one block are told. Nothing is read before one is asked for.
#[derive(Clone)]
pub(crate) struct Prices {
    /// What the block's own step has touched, which is not stored yet.
    touched: BTreeMap<B256, BookPrices>,
    nodes: Arc<dyn TrieReader>,
    root: Root,
}

/// Where the root of the stored trading state is found.
#[derive(Clone)]
enum Root {
    Known(B256),
    /// Said by a block of the chain, whose body is read for it once.
    SaidBy {
        chain: Arc<dyn ChainReader>,
        engine: Arc<dyn ConsensusEngine>,
        block: B256,
        found: OnceLock<B256>,
    },
}

impl Prices {
    /// Those after the step of a block that is executed: what it has touched, and the state of its parent.
    pub(in crate::native::exchange) fn after_step(
        trading: &TradingState<'_>,
        nodes: Arc<dyn TrieReader>,
        parent_root: B256,
    ) -> Self {
        Self { touched: trading.touched_prices(), nodes, root: Root::Known(parent_root) }
    }

    /// Those that a call after `block` is told, in an EVM of the height `number`: the trading state that the block says.
    /// None outside the exchange's time.
    pub(crate) fn of_call(
        native: &NativeSettings,
        chain: &Arc<dyn ChainReader>,
        engine: &Arc<dyn ConsensusEngine>,
        block: &SealedHeader,
        number: u64,
    ) -> Option<Self> {
        is_exchange_received(&native.heights, number).then(|| Self::said_by(chain, engine, block))
    }

    /// Those that the transactions of a block are told which the reference executes to come to the one that it traces:
    /// the parent's, because it passes over the exchange's step there. The traced one is told none.
    pub(crate) fn of_replay(
        native: &NativeSettings,
        chain: &Arc<dyn ChainReader>,
        engine: &Arc<dyn ConsensusEngine>,
        parent: &SealedHeader,
    ) -> Option<Self> {
        let has_state = parent.number >= native.heights.tip_xdcx && parent.number > QUIET_UNTIL;
        let is_told = has_state && is_exchange_received(&native.heights, parent.number + 1);
        is_told.then(|| Self::said_by(chain, engine, parent))
    }

    fn said_by(chain: &Arc<dyn ChainReader>, engine: &Arc<dyn ConsensusEngine>, block: &SealedHeader) -> Self {
        let root = Root::SaidBy {
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
    /// [`StoreError::Corrupt`] where a node of the trading state is missing or damaged, [`StoreError::Pruned`] where it has
    /// been pruned meanwhile.
    pub(in crate::native) fn of_pair(&self, base: Address, quote: Address) -> Result<BookPrices, StoreError> {
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
            Self::SaidBy { chain, engine, block, found } => (chain, engine, *block, found),
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

    /// What it means that a record could not be read below this root.
    fn failure(&self, error: ExchangeError) -> StoreError {
        match error {
            ExchangeError::Store(error) | ExchangeError::Trie(TrieError::Store(error)) => error,
            ExchangeError::Trie(error @ TrieError::Missing { .. }) => self.pruned().unwrap_or_else(|| damaged(&error)),
            error => damaged(&error),
        }
    }

    /// Why the state of the block that says this root is gone; none where it is not.
    fn pruned(&self) -> Option<StoreError> {
        let Self::SaidBy { chain, block, .. } = self else { return None };
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

#[cfg(test)]
impl Prices {
    /// Those of the books of these pairs; another pair's would be read below a root that has no nodes when there is one.
    pub(in crate::native) fn of_books(books: &[(Address, Address, BookPrices)], root: B256) -> Self {
        struct Nothing;
        impl TrieReader for Nothing {
            fn node(&self, _: Option<B256>, _: &[u8], _: B256) -> Result<Option<alloy_primitives::Bytes>, StoreError> {
                Ok(None)
            }
        }
        let touched = books.iter().map(|(base, quote, prices)| (book_of(*base, *quote), *prices)).collect();
        Self { touched, nodes: Arc::new(Nothing), root: Root::Known(root) }
    }
}
