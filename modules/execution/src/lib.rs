//! Imports blocks: from a decoded block to the new head.
//!
//! It owns the [`Importer`] (which blocks become canonical, in which order) and the [`ChainActor`] that serialises all
//! writers. The execution of one block is in `tenon-execution-block`, which `tenon-simulation` uses too; the EVM, the state of
//! a block and what a family of chains decides are in `tenon-execution-interface`.
//!
//! Invariants: a block reaches the database only after all results of execution have been compared with its header; the
//! database changes only through `BlockCommit`s and unwinds. This crate knows no particular consensus engine (it receives
//! one), no database, no JSON-RPC envelope and no family of chains.

#![forbid(unsafe_code)]

mod error;
mod import;
mod register;

pub use error::ImportError;
pub use import::{
    ChainActor, ChainHandle, ChainMessage, FileImportError, ImportObserver, ImportSummary, ImportedBlock, Importer,
    ImporterError, Reply,
};
pub use register::register;
