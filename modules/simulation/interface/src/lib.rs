//! The interface that a family of chains implements for calls, simulated blocks and suggested fees.
//!
//! It owns:
//!
//! - the trait [`SimulationFamily`] with its parts ([`CallFamily`], [`SimulatedBlockFamily`]);
//! - the rules and the environment of a call ([`CallRules`], [`CallEnvironment`]), and the runs of an estimate
//!   ([`Trials`]);
//! - the limits of requests ([`CallLimits`]);
//! - the errors of calls and runs ([`CallError`], [`RunFailure`]);
//! - the members and texts that families have in common. The steps of a call or a simulation are the same for every
//!   family: `tenon-simulation` has them, and implements Ethereum's family; `modules/native/simulation` implements that
//!   of native chains. A family is chosen once for a chain, like the
//!   [`ChainFamily`](tenon_execution_interface::ChainFamily) that decides about blocks. `tenon-traces` is the interface
//!   for traces.
//!
//! Invariants: the crate runs nothing but one message at a time, and writes nothing; it knows no database
//! and no JSON.

#![forbid(unsafe_code)]

mod call_error;
mod calls;
mod client_behaviour;
mod environment;
mod error_texts;
mod instructions;
mod limits;
mod members;
mod precompile_errors;
mod run_failure;
mod trials;

pub use call_error::{CallEnd, CallError};
pub use calls::{CallFamily, CallPlace, CallRules, ListFailure, Payer};
pub use client_behaviour::{ClientBehaviour, SimulatedBlockFamily};
pub use environment::CallEnvironment;
pub use error_texts::{HaltCause, halt_cause, invalid_transaction_text};
pub use instructions::{StackBounds, instruction_name, instruction_of, is_known_to_the_reference};
pub use limits::CallLimits;
pub use members::{UNBOUNDED_GAS, access_list_items, bounded_gas, check_prices, write_override};
pub use precompile_errors::precompile_failure;
pub use run_failure::RunFailure;
pub use trials::{MAX_ATTEMPTED_GAS, Trials};

/// The rules for calls and simulations in which families differ, for one chain.
pub trait SimulationFamily: CallFamily + SimulatedBlockFamily + Send + Sync {}

impl<T: CallFamily + SimulatedBlockFamily + Send + Sync> SimulationFamily for T {}
