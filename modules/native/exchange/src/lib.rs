//! The historic on-chain exchange of native chains (`docs/spec/chain.md` 6). Trading works as specified; lending is
//! refused with an error that names it.
//!
//! The specification only outlines lending. Therefore the first block with any lending, or with a lending root that is
//! not empty, is refused before any part of it is committed.
//!
//! It owns the step at the beginning of a block ([`Opening`]), the trading state, and the prices that contracts read
//! from it ([`Prices`]). `order` contains orders, `batch` their batches, `state` the trading state. `matching` applies
//! orders to the main state through `ledger`, and `settlement` computes and makes the transfers of a match. `boundary`
//! refuses blocks that would need the step where it is not executed.
//!
//! Invariants: it reaches the main state only through [`MainState`], and knows no EVM; nothing is written before the
//! whole step is valid.

#![forbid(unsafe_code)]

mod amounts;
mod batch;
mod boundary;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod ledger;
mod matching;
#[cfg(any(test, feature = "fuzzing"))]
mod memory;
mod opening;
mod order;
mod settlement;
mod state;

use alloy_primitives::{Address, B256, address};
use tenon_api::StoreError;
use tenon_chain::TrieError;

pub use amounts::Wide;
pub use boundary::{Unsupported, check_block, check_transaction};
pub use ledger::{DecimalsError, MainState, RELAYER_COUNT};
pub use opening::{Opening, OpeningError, trading_root};
pub use state::{BookPrices, Prices, TradingProblem, TradingReport, verify_trading_state};

/// Receives batches of orders.
pub const TRADING: Address = address!("0000000000000000000000000000000000000091");
/// Receives the roots of the exchange's states.
pub const EXCHANGE_ROOTS: Address = address!("0000000000000000000000000000000000000092");
/// Receives batches of lending.
pub const LENDING: Address = address!("0000000000000000000000000000000000000093");
/// Receives finalized trades of lending.
pub const LENDING_FINALIZED: Address = address!("0000000000000000000000000000000000000094");

/// The exchange does nothing up to and including this block.
const LAST_INACTIVE_BLOCK: u64 = 900;

/// A rule of the exchange that a block breaks. The texts are the reference's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokenRule {
    /// The nonce of an order is above its user's next one.
    #[error("nonce too high")]
    NonceTooHigh,
    /// The nonce of an order is below its user's next one.
    #[error("nonce too low")]
    NonceTooLow,
    /// A relayer lists more or fewer base tokens than quote tokens.
    #[error("invalid length from token & to token: from :{from} , to :{to} ")]
    UnequalTokens {
        /// Number of base tokens.
        from: u64,
        /// Number of quote tokens.
        to: u64,
    },
    /// The step has another result than the block states.
    #[error("invalid XDCx trading state merke trie got : {got} , expect : {expected} ,parent : {parent}")]
    TradingRoot {
        /// The trading root after the step.
        got: B256,
        /// The block's trading root.
        expected: B256,
        /// The parent block's trading root.
        parent: B256,
    },
}

/// Why the exchange's step failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum ExchangeError {
    /// The block is not valid.
    #[error(transparent)]
    Rule(#[from] BrokenRule),
    /// A feature that this node does not implement.
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

#[cfg(test)]
mod vectors;
