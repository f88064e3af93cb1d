//! The historic on-chain exchange (`docs/spec/chain.md` 6): trading as specified; lending is refused by name.
//!
//! The specification only outlines lending. So the first block with any lending, or with a lending root that is not
//! empty, is refused before anything of it can be committed.
//!
//! `order` contains orders, `batch` their batches, `state` the trading state; `matching` applies orders, with
//! `settlement` for the transfers of a match, to the main state through `ledger`. `opening` is the step at the
//! beginning of a block.

mod amounts;
mod batch;
pub(crate) mod fuzzing;
mod ledger;
mod matching;
mod memory;
mod opening;
mod order;
mod settlement;
mod state;

use alloy_primitives::Address;
use tenon_api::{EMPTY_ROOT_HASH, Header, StoreError, Transaction};
use tenon_chain::{NativeSettings, TrieError};

#[cfg(test)]
pub(in crate::native) use self::{amounts::Wide, state::BookPrices};
pub(crate) use self::{opening::Opening, state::Prices};
pub use self::{
    opening::trading_root,
    state::{TradingProblem, TradingReport, verify_trading_state},
};

use self::{batch::may_hold_orders, ledger::RELAYER_COUNT};
use super::{
    addresses::{EXCHANGE_ROOTS, LENDING, TRADING},
    interception::is_exchange_received,
};
use crate::{ExecutionError, block::BlockState, error::TransactionRejection};

/// Why the exchange's step fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum ExchangeError {
    /// The block is not valid.
    #[error("{0}")]
    Rule(String),
    /// A feature that is not implemented here.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The stored trading state is corrupt.
    #[error("the trading state is damaged: {0}")]
    Damaged(&'static str),
    /// Its tries cannot be read.
    #[error(transparent)]
    Trie(#[from] TrieError),
    /// The main state cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Up to this block the exchange does nothing.
const QUIET_UNTIL: u64 = 900;

/// What to do with the exchange's step at the beginning of a block.
pub(crate) enum Step {
    /// Executed. With `None`, a block that would need it is refused.
    Taken(Option<Opening>),
    /// Skipped, as by the reference in traces; nothing is refused.
    Skipped,
}

/// Refuses a block whose opening step would change the exchange's state, if that step is not executed.
pub(super) fn check_block(
    native: &NativeSettings,
    header: &Header,
    state: &mut BlockState,
) -> Result<(), ExecutionError> {
    let number = header.number;
    if !is_exchange_received(&native.heights, number) || number <= QUIET_UNTIL {
        return Ok(());
    }
    // In v2 an epoch may begin at any height.
    let may_update_prices = number.is_multiple_of(native.consensus.epoch) || number > native.consensus.switch_block;
    if may_update_prices && !state.read_slot(native.contracts.relayer_registration, RELAYER_COUNT)?.is_zero() {
        return Err(ExecutionError::Unsupported {
            number: number.into(),
            what: "the prices of the historic exchange at the end of an epoch (spec/chain.md 6.1)".to_owned(),
        });
    }
    Ok(())
}

/// Refuses a transaction that only the exchange could check, if its step was not executed. Roots count only from the
/// block's author; batches from any sender; finalized lending trades are only informational.
pub(super) fn check_transaction(
    native: &NativeSettings,
    number: u64,
    author: Address,
    transaction: &Transaction,
    sender: Address,
) -> Result<(), TransactionRejection> {
    let Some(receiver) = transaction.to.filter(|_| is_exchange_received(&native.heights, number)) else {
        return Ok(());
    };
    match receiver {
        EXCHANGE_ROOTS if sender == author => check_roots(&transaction.input),
        TRADING if may_hold_orders(&transaction.input) => {
            Err(TransactionRejection::Unsupported("orders of the historic exchange (spec/chain.md 6.4)"))
        }
        LENDING if may_hold_orders(&transaction.input) => {
            Err(TransactionRejection::Unsupported("lending on the historic exchange (spec/chain.md 6.5)"))
        }
        _ => Ok(()),
    }
}

/// The roots must be those of empty tries: nothing has been traded or lent yet.
fn check_roots(input: &[u8]) -> Result<(), TransactionRejection> {
    let is_empty = |root: &[u8]| root == EMPTY_ROOT_HASH.as_slice();
    let is_untouched = match input.len() {
        0..=31 => true,
        32..=63 => is_empty(&input[..32]),
        length => is_empty(&input[..32]) && is_empty(&input[length - 32..]),
    };
    if is_untouched {
        return Ok(());
    }
    Err(TransactionRejection::Unsupported("a state of the historic exchange that is not empty (spec/chain.md 6.3)"))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
