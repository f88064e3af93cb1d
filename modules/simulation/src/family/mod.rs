//! What a family of chains decides about calls, simulated blocks, suggested fees and traces.
//!
//! The steps of a call, a simulation or a trace are the same for every family. They ask the [`SimulationFamily`], which is
//! chosen once for a chain, like the [`ChainFamily`](tenon_execution_interface::ChainFamily) that decides about blocks.

mod calls;
mod conventions;
mod ethereum;
mod traces;

pub use calls::{CallFamily, CallPlace, CallTerms, ListFailure, Payer};
pub use conventions::{Conventions, SimulatedBlockFamily};
pub use ethereum::EthereumSimulation;
pub use traces::{TraceFamily, TracerDialect};

pub use crate::call::{
    CallEnd, MAX_ATTEMPTED_GAS, RunFailure, Trials, UNBOUNDED_GAS, access_list_items, bounded_gas, check_prices,
    exceeds_allowance, invalid_transaction_text, revert_failure, write_override,
};

/// The rules of one chain in which families differ where nothing is written.
pub trait SimulationFamily: CallFamily + SimulatedBlockFamily + TraceFamily + Send + Sync {}

impl<T: CallFamily + SimulatedBlockFamily + TraceFamily + Send + Sync> SimulationFamily for T {}
