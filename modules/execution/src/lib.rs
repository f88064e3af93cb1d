//! Executes blocks: from a decoded block to all its changes.
//!
//! It owns the [`Executor`] (one block over its parent's state), the [`Importer`] (which blocks become canonical,
//! in which order), and the [`ChainActor`] that serialises all writers. Calls and traces, which write nothing, are run by
//! `tenon-simulation` with the steps of this crate.
//!
//! Invariants: a block reaches the database only after all results of execution have been compared with its header; the
//! database changes only through `BlockCommit`s and unwinds. This crate knows no particular consensus engine (it receives
//! one), no database and no JSON-RPC envelope, and no family of chains but Ethereum's: another implements
//! [`family::ChainFamily`]. Differences between forks are data in `block/rules.rs`.

#![forbid(unsafe_code)]

pub mod block;
mod error;
pub mod family;
mod import;
mod register;

pub use block::{
    ExecutedBlock, Executor, Explanation, ReferenceAccount, ReferenceBlock, ReferenceLog, ReferenceReceipt,
    StateBefore, Transition,
};
pub use error::{ExecutionError, ImportError, TransactionRejection};
pub use import::{
    ChainActor, ChainHandle, ChainMessage, ImportObserver, ImportSummary, ImportedBlock, Importer, Reply,
};
pub use register::register;
