//! Executes blocks and calls: from a decoded block to all its changes, from a call to its answer.
//!
//! It owns the [`Executor`] (one block over its parent's state), the [`Importer`] (which blocks become canonical,
//! in which order), the [`ChainActor`] that serialises all writers, and the handlers of the messages about
//! calls, simulations, traces and fees ([`register`]).
//!
//! Invariants: a block reaches the database only after all results of execution have been compared with its header; the
//! database changes only through `BlockCommit`s and unwinds; calls and traces never write, and end when their time is
//! over or their caller has gone. This crate knows no particular consensus engine (it receives one), no database and no
//! JSON-RPC envelope, and no family of chains but Ethereum's: another implements [`family::ChainFamily`]. Differences
//! between forks are data in `block/rules.rs`.

#![forbid(unsafe_code)]

mod block;
mod call;
mod error;
pub mod family;
mod fee;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod import;
mod instructions;
mod limits;
mod register;
mod simulate;
mod trace;

pub use block::{
    ExecutedBlock, Executor, Explanation, ReferenceAccount, ReferenceBlock, ReferenceLog, ReferenceReceipt,
    StateBefore, Transition,
};
pub use error::{ExecutionError, ImportError, TransactionRejection};
pub use import::{
    ChainActor, ChainHandle, ChainMessage, ImportObserver, ImportSummary, ImportedBlock, Importer, Reply,
};
pub use limits::{CallResources, ExecutionLimits};
pub use register::register;
pub use tenon_javascript::{Program, ScriptOptions, run_script_child};
