//! Differences of native chains from Ethereum in executing a block (`docs/spec/chain.md` 3 to 6).
//!
//! One file per rule: the instructions and gas prices of a height (`schedule`, `instructions`, `precompiles`),
//! transactions that are not executed (`interception`), the payer (`sponsorship`) and receiver (`fees`) of fees, their
//! EVM handler (`handler`), which empty accounts are written back (`frames`), what invalidates a block
//! (`denylist` in the chain's settings, `exchange`, `token_test`), the contract with past hashes (`history`), and the order of all these in a block
//! (`block`). [`NativeFamily`] is what the steps of a block ask.
//!
//! Invariant: a rule that is not implemented here causes a refusal by name, before anything can be committed.

mod addresses;
mod block;
mod estimate;
mod exchange;
mod family;
mod fees;
mod frames;
mod handler;
mod history;
mod instructions;
mod interception;
mod message;
mod overrides;
mod precompiles;
mod schedule;
mod sponsorship;
mod token_test;

use exchange::Prices;
pub(crate) use family::NativeFamily;
#[cfg(feature = "fuzzing")]
pub(crate) use precompiles::proof_is_valid;

#[cfg(test)]
mod prague_tests;
