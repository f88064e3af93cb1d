//! Blocks out of a stopped reference node's data folder (`XDC/chaindata`, a LevelDB), in order of height.
//!
//! The folder is only read. The `rusty-leveldb` crate writes logs and compacts when it opens a database, so it runs over an
//! environment of this crate (`environment`): what it writes stays in memory, and the only thing that is done to the
//! folder is to hold its `LOCK` file, as a node does, so that none starts meanwhile.
//!
//! The crate passes over tables that it cannot read. The environment checks every block of a table as it is read and keeps
//! what was wrong, so that a damaged folder is an error that names the file and the byte, and never a shorter chain.
//!
//! Invariants: no file of the folder is created, changed, renamed or removed; a block is handed out only if its header has the
//! hash under which the chain lists it. The crate knows no rule: blocks are as unchecked as those of any file.

#![forbid(unsafe_code)]

mod blocks;
mod database;
mod environment;
mod error;
mod folder;
mod keys;

pub use blocks::{Blocks, ReferenceChain};
pub use error::{Part, ReferenceDataError};
