//! Errors of reading a folder.

use std::io;
use std::path::PathBuf;

use tenon_api::B256;
use tenon_chain::DecodeError;

/// A record of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum Part {
    /// The hash of the canonical block of a height.
    #[display("canonical hash")]
    CanonicalHash,
    /// The header of a block.
    #[display("header")]
    Header,
    /// The transactions and uncles of a block.
    #[display("body")]
    Body,
}

/// Why a folder, or a block of it, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceDataError {
    /// The folder contains no database.
    #[error("{}: no chain of a reference node; give its data folder, or the `XDC/chaindata` in it", .path.display())]
    NotFound {
        /// The folder that was named.
        path: PathBuf,
    },
    /// A node has the folder open.
    #[error("{}: a node has it open; stop that node first", .path.display())]
    InUse {
        /// The database's folder.
        path: PathBuf,
    },
    /// The operating system refused to read a file.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The database cannot be opened.
    #[error("{}: the database cannot be opened: {reason}", .path.display())]
    Open {
        /// The database's folder.
        path: PathBuf,
        /// The database crate's error.
        reason: String,
    },
    /// A file of the database is damaged.
    #[error("{}: damaged: {what}; let the reference node repair its folder, or take another copy", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem, and its position in the file.
        what: String,
    },
    /// The database names no head block.
    #[error("{}: the database has no head block, so it has no chain", .path.display())]
    NoHead {
        /// The database's folder.
        path: PathBuf,
    },
    /// A record of the chain is missing.
    #[error("{}: block {number}: the {part} is missing, although the chain continues to block {head}", .path.display())]
    Missing {
        /// The database's folder.
        path: PathBuf,
        /// The height.
        number: u64,
        /// The missing record.
        part: Part,
        /// The height of the head.
        head: u64,
    },
    /// A record does not match its key or cannot be decoded.
    #[error("{}: block {number}: the {part} is invalid: {source}", .path.display())]
    Invalid {
        /// The database's folder.
        path: PathBuf,
        /// The height.
        number: u64,
        /// The invalid record.
        part: Part,
        /// The problem.
        source: DecodeError,
    },
    /// A header has another hash or height than its key.
    #[error("{}: the header listed as block {number} ({listed}) is that of block {found_number} ({found})", .path.display())]
    OtherHeader {
        /// The database's folder.
        path: PathBuf,
        /// The height in the key.
        number: u64,
        /// The hash in the key.
        listed: B256,
        /// The header's own height.
        found_number: u64,
        /// The header's own hash.
        found: B256,
    },
    /// The reading thread has ended.
    #[error("{}: reading failed: {reason}", .path.display())]
    Failed {
        /// The database's folder.
        path: PathBuf,
        /// The panic's text.
        reason: String,
    },
}
