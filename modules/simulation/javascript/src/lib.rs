//! Tracers written in JavaScript (`docs/spec/rpc-node.md` 4.2), run in processes of their own.
//!
//! It owns the script engine, the objects that a script sees, the messages between the node and the process that runs
//! the script, and those processes: their number, memory and time. It knows neither the EVM nor the database: the node
//! sends what happened ([`Event`]), and answers questions about accounts ([`State`]).
//!
//! Invariants:
//!
//! - a script runs in a process that cannot access files, the network or other processes;
//! - the node waits for it until a deadline and not longer;
//! - the result of a script is JSON text, which is not parsed here;
//! - events reach the script in order, and the node does not change accounts while a script reads them.

#![forbid(unsafe_code)]

mod address;
mod child;
mod engine;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod interface;
mod link;
mod natives;
mod process;
mod protocol;
mod session;

pub use child::run_script_child;
pub use interface::ScriptInterface;
pub use process::{BATCH_BYTES, Program, Script, ScriptHost, ScriptOptions, ScriptSlot, Start, State, Waiting};
pub use protocol::{CallFacts, Event, FrameFacts, ResultFacts, RunFacts, ScriptError, StepFacts, Write};
