//! The exchange's step at the beginning of a block (`docs/spec/chain.md` 6.1): the orders of the block's batches, or
//! the prices at an epoch switch; then the trading root must equal the block's.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};
use tenon_api::{
    BlockNumber, ChainReader, ConsensusEngine, EMPTY_ROOT_HASH, Header, RecoveredBlock, SealedHeader, StoreError,
    TrieReader,
};
use tenon_chain::{ChainSpec, NativeSettings, TrieUpdate};

use super::{
    ExchangeError, QUIET_UNTIL,
    batch::{may_hold_orders, orders_in},
    ledger::{Ledger, MainState},
    matching::Market,
    order::{Order, are_signed},
    state::{Prices, TradingState},
};
use crate::{
    ExecutionError,
    block::BlockEvm,
    native::{
        addresses::{EXCHANGE_ROOTS, LENDING, TRADING},
        interception::is_exchange_received,
        token_test::decimals_of,
    },
};

/// Length of a trading root; a lending root is at the end of the rest.
const ROOT_LENGTH: usize = 32;

/// Orders whose signers are recovered in one batch.
const ORDERS_PER_BATCH: usize = 64;

/// The exchange's input for opening a block.
pub(crate) struct Opening {
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
    /// [`ExecutionError::Unsupported`] for a batch of loans or one in a form not written by miners; [`ExecutionError`]
    /// if the parent block or an author is unknown.
    pub(crate) fn of(
        spec: &ChainSpec,
        chain: &dyn ChainReader,
        engine: &dyn ConsensusEngine,
        block: &RecoveredBlock,
        author: Address,
        parent: &SealedHeader,
    ) -> Result<Option<Self>, ExecutionError> {
        let number = block.number();
        let Some(native) = &spec.native else { return Ok(None) };
        if !is_exchange_received(&native.heights, number.0) || number.0 <= QUIET_UNTIL {
            return Ok(None);
        }
        let inputs = |receiver| {
            let received = block.transactions.iter().filter(move |transaction| transaction.to == Some(receiver));
            received.map(|transaction| &transaction.input)
        };
        if inputs(LENDING).any(|input| may_hold_orders(input)) {
            return Err(unsupported(number, "lending on the historic exchange (spec/chain.md 6.5)"));
        }
        let opens_epoch = engine.opens_epoch(&block.header)?;
        let mut orders = Vec::new();
        if !opens_epoch {
            for input in inputs(TRADING) {
                let unclear =
                    |_| unsupported(number, "a batch of orders in a form that no miner wrote (spec/chain.md 6.1)");
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
    /// [`ExecutionError::Exchange`]: the block is invalid. [`ExecutionError::Unsupported`] for any lending.
    pub(in crate::native) fn apply<I>(
        self,
        native: &NativeSettings,
        header: &Header,
        author: Address,
        evm: &mut BlockEvm<I>,
    ) -> Result<(TrieUpdate, Prices), ExecutionError> {
        let number = BlockNumber(header.number);
        if self.lending_root != EMPTY_ROOT_HASH {
            return Err(unsupported(number, "a state of lending that is not empty (spec/chain.md 6.5)"));
        }
        let mut state = OpenedBlock(evm);
        let mut market = Market {
            trading: TradingState::new(&*self.trie, self.parent_root),
            ledger: Ledger::new(&mut state, native.contracts.relayer_registration, author),
            has_cancellation_fee: header.number >= native.heights.tip_xdcx_cancellation_fee,
        };
        self.run(&mut market).map_err(|error| in_block(number, error))?;
        let prices = Prices::after_step(&market.trading, Arc::clone(&self.trie), self.parent_root);
        let update = market.trading.finish().map_err(|error| in_block(number, error))?;
        if update.root == self.root {
            return Ok((update, prices));
        }
        let (got, expected, parent) = (update.root, self.root, self.parent_root);
        let reason =
            format!("invalid XDCx trading state merke trie got : {got} , expect : {expected} ,parent : {parent}");
        Err(ExecutionError::Exchange { number, reason })
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
/// [`StoreError`] if the block cannot be read; [`ExecutionError`] if its author is unknown.
pub fn trading_root(
    spec: &ChainSpec,
    chain: &dyn ChainReader,
    engine: &dyn ConsensusEngine,
) -> Result<Option<B256>, ExecutionError> {
    let head = Arc::clone(&chain.head().header);
    let is_kept = |native: &NativeSettings| is_exchange_received(&native.heights, head.number);
    if !spec.native.as_ref().is_some_and(is_kept) || head.number <= QUIET_UNTIL {
        return Ok(None);
    }
    let missing = || StoreError::UnknownBlock { what: head.hash().to_string() };
    let block = chain.block(head.hash())?.ok_or_else(missing)?;
    Ok(Some(roots_of(&block, engine.author(&head)?).0))
}

/// The trading and the lending root stated by a block's author; empty roots if there are none.
pub(super) fn roots_of(block: &RecoveredBlock, author: Address) -> (B256, B256) {
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

fn unsupported(number: BlockNumber, what: &str) -> ExecutionError {
    ExecutionError::Unsupported { number, what: what.to_owned() }
}

fn in_block(number: BlockNumber, error: ExchangeError) -> ExecutionError {
    match error {
        ExchangeError::Rule(reason) => ExecutionError::Exchange { number, reason },
        ExchangeError::Unsupported(what) => unsupported(number, &format!("{what} (spec/chain.md 6.4)")),
        ExchangeError::Damaged(what) => StoreError::Corrupt { what: format!("the trading state: {what}") }.into(),
        ExchangeError::Trie(source) => ExecutionError::Trie { number, source },
        ExchangeError::Store(error) => error.into(),
    }
}

/// The state of a block before its first transaction.
struct OpenedBlock<'a, I>(&'a mut BlockEvm<I>);

impl<I> MainState for OpenedBlock<'_, I> {
    fn balance(&mut self, account: Address) -> Result<U256, StoreError> {
        self.0.ctx.journaled_state.database.balance(account)
    }

    fn set_balance(&mut self, account: Address, balance: U256) -> Result<(), StoreError> {
        self.0.ctx.journaled_state.database.set_balance(account, balance)
    }

    fn slot(&mut self, contract: Address, slot: U256) -> Result<U256, StoreError> {
        self.0.ctx.journaled_state.database.read_slot(contract, slot)
    }

    fn set_slot(&mut self, contract: Address, slot: U256, value: U256) -> Result<(), StoreError> {
        self.0.ctx.journaled_state.database.write_slot(contract, slot, value)
    }

    fn exists(&mut self, account: Address) -> Result<bool, StoreError> {
        self.0.ctx.journaled_state.database.exists(account)
    }

    fn decimals(&mut self, token: Address) -> Result<Option<u8>, StoreError> {
        decimals_of(self.0, token)
    }
}
