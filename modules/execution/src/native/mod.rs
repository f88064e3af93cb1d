//! Differences of native chains from Ethereum in executing a block (`docs/spec/chain.md` 3 to 6).
//!
//! One file per rule: the instructions and gas prices of a height (`schedule`, `instructions`, `precompiles`),
//! transactions that are not executed (`interception`), the payer (`sponsorship`) and receiver (`fees`) of fees, their
//! EVM handler (`handler`), which empty accounts are written back (`dirty_marks`, `frames`), what invalidates a block
//! (`denylist` in the chain's settings, `exchange`, `token_test`), the contract with past hashes (`history`), and the order of all these in a block (`block`).
//!
//! Invariant: a rule that is not implemented here causes a refusal by name, before anything can be committed.

mod addresses;
mod block;
mod dirty_marks;
mod exchange;
mod fees;
mod frames;
mod handler;
mod history;
mod instructions;
mod interception;
mod precompiles;
mod schedule;
mod sponsorship;
mod token_test;
mod whole_fees;

pub(crate) use addresses::{as_text as address_text, is_exempt_receiver};
pub(crate) use block::{NativeBlock, Treatment};
pub(crate) use dirty_marks::{Change, DirtyMarks, RIPEMD};
pub(crate) use exchange::{Opening as ExchangeOpening, Prices, Step as ExchangeStep, in_block as opening_failure};
pub(crate) use fees::Fees;
pub(crate) use frames::FrameRunner;
pub(crate) use handler::{Outcome, inspect, transact};
pub(crate) use instructions::{InstructionChanges, writing_static_call};
pub(crate) use interception::{Interception, is_skipped_by_traces, log_of};
#[cfg(feature = "fuzzing")]
pub(crate) use precompiles::proof_is_valid;
pub(crate) use precompiles::{EXTRA_PRECOMPILES, extra_failure_text, is_price_contract, run_extra_precompile};
pub(crate) use schedule::rules;
pub(crate) use sponsorship::capacity_of;
pub(crate) use token_test::Candidate;

#[cfg(test)]
mod prague_tests;
