//! The chain database: headers, bodies, receipts, logs, the latest state, every past state, and the trie nodes.
//!
//! It owns the folder on disk: its format, its lock, its syncing, and its pruning. It is read through
//! [`ChainReader`](tenon_api::ChainReader), written through [`ChainWriter`](tenon_api::ChainWriter) and queried over
//! the bus through the handlers of [`register`]. A store gives out one writer at a time: [`StorageWriter`], the handle
//! to the actor that writes in a running node, or [`DirectWriter`], for commands without a node.
//!
//! Invariants:
//!
//! - a block is written whole or not at all, and a branch replaces another in one batch, so that the database is at a
//!   whole block whenever the process or the power fails;
//! - readers never wait for the writer;
//! - a read at a height returns what the chain had there, or a named error.
//!
//! The crate knows no rule of consensus and runs no EVM: it applies [`BlockCommit`](tenon_api::BlockCommit)s.
//!
//! Layout:
//!
//! - `format` defines what is stored, how, and why;
//! - `write` contains everything that changes the chain, and `writer` the two ways to call it: an actor, or the
//!   caller's thread;
//! - `read` contains the reads that are more than a look-up;
//! - `space` stores the records of plugins, separately;
//! - `condition` reports whether the database can be written, by the outcomes in `write_record`, and `full_disk` how
//!   much space it needs;
//! - `table_list` refuses a truncated list of tables, `log_check` damaged logs;
//! - `ports` and `handlers` are the interfaces, `verify` checks all records.
//!
//! ```no_run
//! use std::sync::Arc;
//! use tenon_api::{BlockCommit, ChainReader, ChainWriter};
//! use tenon_storage::{Store, StoreOptions};
//!
//! fn start(genesis: &BlockCommit, block_1: &Arc<BlockCommit>) -> Result<(), Box<dyn std::error::Error>> {
//!     let store = Store::open("data/chain".as_ref(), StoreOptions::with_cache(64 << 20))?;
//!     store.initialise(genesis, 31337)?;
//!     store.take_writer()?.commit(block_1)?;
//!     let state = store.state_at(store.head().number())?;
//!     Ok(())
//! }
//! ```

#![forbid(unsafe_code)]

// The support of the integration tests names the crate, and tests of the writers use it too.
#[cfg(test)]
extern crate self as tenon_storage;

mod cache;
mod checkpoint;
mod condition;
mod database;
mod error;
mod folder_lock;
mod format;
mod full_disk;
mod handlers;
mod log_check;
mod options;
mod ports;
mod read;
mod space;
mod statistics;
mod store;
mod table_list;
mod verify;
mod write;
mod write_record;
mod writer;

pub use error::OpenError;
pub use format::meta::FORMAT;
pub use handlers::{StoreLimits, StoreResources, register};
pub use options::{Durability, Mode, StoreOptions};
pub use statistics::{ColumnStatistics, EngineStatistics, StoreStatistics};
pub use store::Store;
pub use table_list::TableListProblem;
pub use verify::{Damage, VerifyProgress, VerifyReport, VerifyStage};
pub use writer::{ACTOR, DirectWriter, StorageWriter, spawn_writer};
