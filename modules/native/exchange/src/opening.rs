//! The exchange's step at the beginning of a block (`docs/spec/chain.md` 6.1): the orders of the block's batches, or
//! the prices at an epoch switch; then the trading root must equal the block's.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes};
use tenon_api::{
    BlockNumber, ChainReader, ConsensusEngine, ConsensusError, EMPTY_ROOT_HASH, Header, RecoveredBlock, SealedHeader,
    StoreError, TrieReader,
};
use tenon_chain::{ChainSpec, TrieError, TrieUpdate};
use tenon_native_spec::NativeSettings;

use crate::{
    BrokenRule, EXCHANGE_ROOTS, ExchangeError, LAST_INACTIVE_BLOCK, LENDING, TRADING,
    batch::{may_hold_orders, orders_in},
    ledger::{Ledger, MainState},
    matching::Market,
    order::{Order, are_signed},
    state::{Prices, TradingState},
};
/// Why a block has no opening step, or an invalid one.
#[derive(Debug, thiserror::Error)]
pub enum OpeningError {
    /// The step needs a rule that is not implemented here.
    #[error("{0}")]
    Unsupported(String),
    /// The block is invalid.
    #[error(transparent)]
    Rule(BrokenRule),
    /// The author of a block is unknown.
    #[error(transparent)]
    Consensus(#[from] ConsensusError),
    /// The database failed, or the stored trading state is damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The tries of the trading state cannot be read.
    #[error(transparent)]
    Trie(TrieError),
}

/// Length of a trading root. An input with both roots ends with the lending root.
const ROOT_LENGTH: usize = 32;

/// Orders whose signers are recovered in one batch.
const ORDERS_PER_BATCH: usize = 64;

/// The exchange's input for opening a block.
#[derive(Clone)]
pub struct Opening {
    trie: Arc<dyn TrieReader>,
    /// The parent block's trading root, on which this block builds.
    parent_root: B256,
    /// The block's trading root.
    root: B256,
    /// The block's lending root.
    lending_root: B256,
    /// RLP of the orders in its batches; empty at an epoch switch.
    orders: Vec<Bytes>,
    opens_epoch: bool,
}

impl Opening {
    /// Collects the input from a block and its parent; `None` if the exchange does nothing at this height.
    ///
    /// # Errors
    /// [`OpeningError::Unsupported`] for a batch of loans or one in a form not written by miners; another if the parent
    /// block or an author is unknown.
    pub fn of(
        spec: &ChainSpec,
        chain: &dyn ChainReader,
        engine: &dyn ConsensusEngine,
        block: &RecoveredBlock,
        author: Address,
        parent: &SealedHeader,
    ) -> Result<Option<Self>, OpeningError> {
        let BlockNumber(number) = block.number();
        let Some(native) = NativeSettings::of(spec) else { return Ok(None) };
        if !native.heights.has_exchange(number) || number <= LAST_INACTIVE_BLOCK {
            return Ok(None);
        }
        let inputs = |receiver| {
            let received = block.transactions.iter().filter(move |transaction| transaction.to == Some(receiver));
            received.map(|transaction| &transaction.input)
        };
        if inputs(LENDING).any(|input| may_hold_orders(input)) {
            return Err(unsupported("lending on the historic exchange (docs/spec/chain.md 6.5)"));
        }
        let opens_epoch = engine.opens_epoch(&block.header)?;
        let mut orders = Vec::new();
        if !opens_epoch {
            for input in inputs(TRADING) {
                let unclear =
                    |_| unsupported("a batch of orders in a form that no miner wrote (docs/spec/chain.md 6.1)");
                orders.extend(orders_in(input).map_err(unclear)?);
            }
        }
        let missing = || StoreError::UnknownBlock { what: parent.hash().to_string() };
        let parent_block = chain.block(parent.hash())?.ok_or_else(missing)?;
        let (parent_root, _) = roots_of(&parent_block, engine.author(parent)?);
        let (root, lending_root) = roots_of(block, author);
        Ok(Some(Self { trie: chain.trie(), parent_root, root, lending_root, orders, opens_epoch }))
    }

    /// Applies the step, and compares the roots; returns the nodes of the trading state, and the prices for the block's
    /// contracts.
    ///
    /// # Errors
    /// [`OpeningError::Rule`]: the block is invalid. [`OpeningError::Unsupported`] for any lending.
    pub fn apply(
        self,
        native: &NativeSettings,
        header: &Header,
        author: Address,
        state: &mut dyn MainState,
    ) -> Result<(TrieUpdate, Prices), OpeningError> {
        if self.lending_root != EMPTY_ROOT_HASH {
            return Err(unsupported("a state of lending that is not empty (docs/spec/chain.md 6.5)"));
        }
        let mut market = Market {
            trading: TradingState::new(&*self.trie, self.parent_root),
            ledger: Ledger::new(state, native.contracts.relayer_registration, author),
            has_cancellation_fee: header.number >= native.heights.tip_xdcx_cancellation_fee,
        };
        self.run(&mut market).map_err(in_block)?;
        let prices = Prices::after_step(&market.trading, Arc::clone(&self.trie), self.parent_root);
        let update = market.trading.finish().map_err(in_block)?;
        if update.root == self.root {
            return Ok((update, prices));
        }
        let (got, expected, parent) = (update.root, self.root, self.parent_root);
        Err(OpeningError::Rule(BrokenRule::TradingRoot { got, expected, parent }))
    }

    fn run(&self, market: &mut Market<'_, '_>) -> Result<(), ExchangeError> {
        if self.opens_epoch {
            return market.switch_epoch();
        }
        // Undecodable orders are skipped.
        for orders in self.orders.chunks(ORDERS_PER_BATCH) {
            let orders: Vec<Order> = orders.iter().filter_map(|order| Order::decode(order).ok()).collect();
            let signed = are_signed(&orders);
            for (order, is_signed) in orders.into_iter().zip(signed) {
                let (user, nonce) = (order.user, order.nonce);
                if let Err(reason) = market.apply(order, is_signed)? {
                    tracing::debug!(%user, %nonce, reason, "order rejected");
                }
            }
        }
        Ok(())
    }
}

/// The root of the trading state after the head; `None` if the exchange does nothing at its height.
///
/// # Errors
/// The block cannot be read, or its author is unknown.
pub fn trading_root(
    spec: &ChainSpec,
    chain: &dyn ChainReader,
    engine: &dyn ConsensusEngine,
) -> Result<Option<B256>, OpeningError> {
    let head = Arc::clone(&chain.head().header);
    let is_kept = |native: &NativeSettings| native.heights.has_exchange(head.number);
    if !NativeSettings::of(spec).is_some_and(is_kept) || head.number <= LAST_INACTIVE_BLOCK {
        return Ok(None);
    }
    let missing = || StoreError::UnknownBlock { what: head.hash().to_string() };
    let block = chain.block(head.hash())?.ok_or_else(missing)?;
    Ok(Some(roots_of(&block, engine.author(&head)?).0))
}

/// The trading and the lending root stated by a block's author; empty roots if there are none.
pub(crate) fn roots_of(block: &RecoveredBlock, author: Address) -> (B256, B256) {
    let first_of = |length: usize| {
        let mut said = block.transactions.iter().zip(&block.senders).filter_map(|(transaction, sender)| {
            let is_said = transaction.to == Some(EXCHANGE_ROOTS) && *sender == author;
            is_said.then_some(&transaction.input)
        });
        said.find(|input| input.len() >= length)
    };
    let trading = first_of(ROOT_LENGTH).and_then(|input| input.first_chunk::<ROOT_LENGTH>());
    let lending = first_of(2 * ROOT_LENGTH).and_then(|input| input.last_chunk::<ROOT_LENGTH>());
    let root = |said: Option<&[u8; ROOT_LENGTH]>| said.map_or(EMPTY_ROOT_HASH, B256::from);
    (root(trading), root(lending))
}

fn unsupported(what: &str) -> OpeningError {
    OpeningError::Unsupported(what.to_owned())
}

fn in_block(error: ExchangeError) -> OpeningError {
    match error {
        ExchangeError::Rule(broken) => OpeningError::Rule(broken),
        ExchangeError::Unsupported(what) => unsupported(&format!("{what} (docs/spec/chain.md 6.4)")),
        ExchangeError::Damaged(what) => StoreError::Corrupt { what: format!("the trading state: {what}") }.into(),
        ExchangeError::Trie(source) => OpeningError::Trie(source),
        ExchangeError::Store(error) => error.into(),
    }
}
