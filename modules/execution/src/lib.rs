//! Executes blocks: from a decoded block to all its changes.
//!
//! It owns the [`Executor`] (one block over its parent's state), the [`Importer`] (which blocks become canonical,
//! in which order), and the [`ChainActor`] that serialises all writers. The EVM, the state of a block and what a family of
//! chains decides are in `tenon-execution-interface`. Calls and traces, which write nothing, are run by
//! `tenon-simulation` with the steps of this crate.
//!
//! Invariants: a block reaches the database only after all results of execution have been compared with its header; the
//! database changes only through `BlockCommit`s and unwinds. This crate knows no particular consensus engine (it receives
//! one), no database, no JSON-RPC envelope and no family of chains: it asks the `ChainFamily` that it receives.

#![forbid(unsafe_code)]

mod block;
mod error;
mod import;
mod register;

pub use block::{
    BlockExecution, BlockOutcome, BlockResults, ExecutedBlock, Executor, Explanation, Prepared, ReferenceAccount,
    ReferenceBlock, ReferenceLog, ReferenceReceipt, StateBefore, Transition,
};
pub use error::ImportError;
pub use import::{
    ChainActor, ChainHandle, ChainMessage, ImportObserver, ImportSummary, ImportedBlock, Importer, Reply,
};
pub use register::register;
