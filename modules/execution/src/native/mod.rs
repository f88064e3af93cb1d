//! What native chains do otherwise than Ethereum when a block is executed (`docs/spec/chain.md` 3 to 6).
//!
//! One file for each rule: which instructions and gas prices hold at a height (`schedule`, `instructions`,
//! `precompiles`), which transactions are not executed at all (`interception`), who pays (`sponsorship`), who is paid
//! (`fees`), how both reach the EVM (`handler`), which empty accounts are written back (`dirty_marks`, `frames`), what stops
//! a block (`denylist` in the chain's settings, `exchange`,
//! `token_test`),
//! and the order in which a block applies them (`block`).
//!
//! What must always hold: a rule that is not executed here refuses by name, before anything can be committed.

mod addresses;
mod block;
mod dirty_marks;
mod exchange;
mod fees;
mod frames;
mod handler;
mod instructions;
mod interception;
mod precompiles;
mod schedule;
mod sponsorship;
mod token_test;

pub(crate) use addresses::{as_text as address_text, is_exempt_receiver};
pub(crate) use block::{NativeBlock, Treatment};
pub(crate) use dirty_marks::{Change, DirtyMarks, RIPEMD};
pub(crate) use exchange::fuzzing as exchange_fuzzing;
pub(crate) use exchange::{Opening as ExchangeOpening, Prices, Step as ExchangeStep};
pub use exchange::{TradingProblem, TradingReport, trading_root, verify_trading_state};
pub(crate) use fees::Fees;
pub(crate) use handler::{Outcome, inspect, transact};
pub(crate) use instructions::{InstructionChanges, writing_static_call};
pub(crate) use interception::{Interception, is_skipped_by_traces, log_of};
pub(crate) use precompiles::{
    EXTRA_PRECOMPILES, extra_failure_text, is_price_contract, proof_is_valid, run_extra_precompile,
};
pub(crate) use schedule::rules;
pub(crate) use sponsorship::capacity_of;
pub(crate) use token_test::Candidate;
