//! Executing one block.

mod dao_fork;
mod execution;
mod executor;
mod explain;
mod requests;
mod transition;

pub use execution::{BlockExecution, BlockOutcome, BlockResults, Prepared};
pub use executor::{ExecutedBlock, Executor};
pub use explain::{Explanation, ReferenceAccount, ReferenceBlock, ReferenceLog, ReferenceReceipt};
pub use transition::{StateBefore, Transition};

pub(crate) use executor::{StateChanges, assemble};
