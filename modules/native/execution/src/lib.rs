//! Differences of native chains from Ethereum in executing a block (`docs/spec/chain.md` 3 to 6).
//!
//! One file per rule:
//!
//! - the instructions and gas prices of a height (`schedule`, `instructions`, `precompiles`);
//! - transactions that are not executed (`interception`);
//! - the payer (`sponsorship`) and receiver (`fees`) of fees, their EVM handler (`handler`), fees that exceed the EVM's
//!   128 and 256 bits (`whole_fees`);
//! - which empty accounts are written back (`frames`);
//! - what invalidates a block (`denylist` in the chain's settings, `exchange`, `token_test`);
//! - the contract with past hashes (`history`);
//! - the order of all these in a block (`block`).
//!
//! `tenon-execution` asks the object that [`family_of`] returns. `tenon-native-simulation` handles calls,
//! `tenon-native-tracers` traces; both reuse what a call shares with a transaction.
//!
//! It owns nothing beyond a cache of verified proofs: its types hold the rules of one chain, or of one block.
//!
//! Invariant: a block that needs a rule which is not implemented here is refused with an error that names the rule,
//! before anything is committed.

#![forbid(unsafe_code)]

mod addresses;
mod block;
mod exchange;
mod family;
mod fees;
mod frames;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod handler;
mod history;
mod instructions;
mod interception;
mod precompiles;
mod schedule;
mod sponsorship;
mod token_test;
mod whole_fees;

use exchange::Prices;

pub use addresses::{as_text as address_text, is_exempt_receiver};
use family::NativeFamily;
pub use frames::run_all as run_frames;
pub use interception::is_skipped_by_traces;
pub use precompiles::PriceRecords;
pub use sponsorship::capacity_of;

use std::sync::Arc;

use tenon_chain::ChainSpec;
use tenon_execution_interface::ChainFamily;

/// The rules of a native chain's blocks; `None` for a chain of another family.
pub fn family_of(spec: &Arc<ChainSpec>) -> Option<Arc<dyn ChainFamily>> {
    Some(Arc::new(NativeFamily::of(spec)?))
}

#[cfg(test)]
mod prague_tests;
