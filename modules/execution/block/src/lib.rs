//! Executes one block over its parent's state, without writing anything.
//!
//! It owns the [`Executor`] and the steps of a block ([`BlockExecution`]), the state test's single transaction
//! ([`Transition`]) and the comparison with a reference's results ([`Explanation`]). The importer (`tenon-execution`) and
//! the simulation use it.
//!
//! Invariants: the methods `Executor::execute*` compare all results with the block's header before they return its changes.
//! The producer of a new block uses the single steps, because it has no results to compare with. The crate knows no
//! database, no consensus engine and no family of chains: it asks the `ChainFamily` that it receives.

#![forbid(unsafe_code)]

mod dao_fork;
mod execution;
mod executor;
mod explain;
mod requests;
mod transition;

pub use execution::{BlockExecution, BlockOutcome, BlockResults, Prepared};
pub use executor::{ExecutedBlock, Executor, StateChanges, assemble};
pub use explain::{Explanation, ReferenceAccount, ReferenceBlock, ReferenceLog, ReferenceReceipt};
pub use transition::{StateBefore, Transition};
