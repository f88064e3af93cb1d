//! Reads blocks from a stopped reference node's data folder (`XDC/chaindata`, a LevelDB), in order of height.
//!
//! The folder is only read. The `rusty-leveldb` crate writes logs and compacts when it opens a database, so it runs on
//! an overlay file system (`environment`) that keeps its writes in memory. The only effect on the folder is that its
//! `LOCK` file is locked, as by a node, so that no node can start on it at the same time.
//!
//! The crate skips tables and records of logs that it cannot read. Therefore the overlay verifies every block of a
//! table as it is read and records problems, and logs are checked first (`log`). A damaged folder then results in an
//! error that names the file and the byte, and never in a shorter chain.
//!
//! Invariants: no file of the folder is created, changed, renamed or removed; a block is returned only if its header
//! has the hash under which the chain lists it. This crate applies no consensus rules: the blocks are as unchecked as
//! those of any file.

#![forbid(unsafe_code)]

mod blocks;
mod database;
mod environment;
mod error;
mod folder;
mod keys;
mod log;

pub use blocks::{Blocks, ReferenceChain};
pub use error::{Part, ReferenceDataError};
