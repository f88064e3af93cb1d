//! The chain database: headers, bodies, receipts, logs, the latest state, every past state, and the trie nodes.
//!
//! It owns the folder on disk: its format, its lock, when it is synced, and what is forgotten in pruned mode. It is
//! read through [`ChainReader`](tenon_api::ChainReader), written through [`ChainWriter`](tenon_api::ChainWriter)
//! and asked over the bus through the handlers of [`register`].
//!
//! What must always hold: a block arrives whole or not at all, and a branch takes the place of another, in one batch, so that
//! the database stands at a whole block whenever the process or the power ends; readers never wait for the writer; what is read at a height is what
//! the chain had there, or a named error. It knows no rule of consensus and runs no EVM: it applies what a
//! [`BlockCommit`](tenon_api::BlockCommit) says.
//!
//! Layout: `format` says what is stored, how, and why so; `write` has the ways in which anything changes; `read`
//! the readings that are more than a look-up; `space` keeps the records of plugins, apart from all of
//! it; `condition` says whether it can be written; `table_list` sees to it that a torn list of tables is refused; `ports` and `handlers` are the two faces, `verify` checks it all.
//!
//! ```no_run
//! use tenon_api::{BlockCommit, ChainReader, ChainWriter};
//! use tenon_storage::{Store, StoreOptions};
//!
//! fn start(genesis: &BlockCommit, block_1: &BlockCommit) -> Result<(), Box<dyn std::error::Error>> {
//!     let store = Store::open("data/chain".as_ref(), StoreOptions::default())?;
//!     store.initialise(genesis, 31337)?;
//!     store.commit(block_1)?;
//!     let state = store.state_at(store.head().number())?;
//!     Ok(())
//! }
//! ```

#![forbid(unsafe_code)]

mod cache;
mod checkpoint;
mod condition;
mod database;
mod error;
mod folder_lock;
mod format;
mod handlers;
mod options;
mod ports;
mod read;
mod space;
mod statistics;
mod store;
mod table_list;
mod verify;
mod write;

pub use error::OpenError;
pub use format::meta::FORMAT;
pub use handlers::{StoreLimits, register};
pub use options::{Durability, Mode, StoreOptions};
pub use statistics::{ColumnStatistics, EngineStatistics, StoreStatistics};
pub use store::Store;
pub use table_list::TableListProblem;
pub use verify::{Damage, VerifyProgress, VerifyReport, VerifyStage};
