//! Answers requests that run the EVM (calls, estimates, access lists, simulated blocks, traces) and those about fees.
//!
//! It owns the handlers of these messages ([`register`]), their limits ([`CallLimits`]), and what Ethereum's
//! chains decide about them ([`EthereumSimulation`], [`EthereumTracers`]); another family implements
//! `tenon-simulation-interface` and `tenon-traces`.
//!
//! Invariants: nothing here writes; every run ends when its time limit has passed or its caller has disconnected, and
//! its memory is reserved from its client's share. This crate runs blocks by the steps of `tenon-execution-block`, and
//! knows no database and no family of chains but Ethereum's. It writes no JSON; it only estimates how long the JSON of
//! an answer will be, to reserve memory for it.

#![forbid(unsafe_code)]

mod call;
mod ethereum;
mod fee;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod limits;
mod register;
mod simulate;
mod trace;

pub use ethereum::EthereumSimulation;
pub use limits::CallResources;
pub use register::{Families, register};
pub use tenon_javascript::{Program, ScriptOptions, run_script_child};
pub use tenon_simulation_interface::CallLimits;
pub use trace::EthereumTracers;
