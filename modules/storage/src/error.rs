//! Errors of opening a database folder, and of a damaged record.

use std::path::PathBuf;

use alloy_primitives::B256;
use tenon_api::StoreError;

use crate::TableListProblem;

/// The error for a record that another program may have written, or that the disk has damaged.
pub(crate) fn corrupt(what: impl Into<String>) -> StoreError {
    StoreError::Corrupt { what: what.into() }
}

/// Why a database could not be opened or initialised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Another process (or this one) has it open.
    #[error("database {path} is in use by another process; stop it, or choose another --datadir")]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// A newer release wrote it.
    #[error("database {path} has format {found}, but this release knows formats up to {known}; use a newer release")]
    NewerFormat {
        /// The folder.
        path: PathBuf,
        /// The format of the folder.
        found: u32,
        /// The newest format of this release.
        known: u32,
    },
    /// An older release wrote it, and the migration to this release's format failed.
    #[error(
        "database {path} could not be converted from format {from} to {to}: {source}; solve that and start again, \
         nothing is lost"
    )]
    Migration {
        /// The folder.
        path: PathBuf,
        /// The folder's format.
        from: u32,
        /// The format to migrate to.
        to: u32,
        /// The cause.
        source: StoreError,
    },
    /// It contains another chain.
    #[error(
        "database has chain {found_chain} with genesis {found_genesis}, but the settings are for chain \
         {wanted_chain} with genesis {wanted_genesis}; choose another --datadir"
    )]
    OtherChain {
        /// Chain id of the folder.
        found_chain: u64,
        /// Genesis hash of the folder.
        found_genesis: B256,
        /// Configured chain id.
        wanted_chain: u64,
        /// Configured genesis hash.
        wanted_genesis: B256,
    },
    /// Its list of tables is incomplete: opening it would silently lose blocks.
    #[error("database {path}: {problem}; nothing was changed; {}", .problem.remedy(.path))]
    TableList {
        /// The folder.
        path: PathBuf,
        /// The problem of the list.
        problem: TableListProblem,
    },
    /// A log has a damaged record with intact ones behind it: opening it would silently lose blocks.
    #[error(
        "database {path}: {file}, a log, is damaged at byte {offset} and intact after it; nothing was changed; restore a \
         copy of the folder or a snapshot. To continue without the blocks from there on, if it is the newest log: copy \
         the folder, run `truncate -s {offset} '{path}/{file}'` and `tenon db verify`"
    )]
    Log {
        /// The folder.
        path: PathBuf,
        /// The log's file.
        file: String,
        /// Start of the damaged record, bytes.
        offset: u64,
    },
    /// A file of the database is missing or damaged.
    #[error(
        "database {path} is damaged: {reason}; restore a copy of the folder or a snapshot, or import the chain into a \
         new folder"
    )]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// The engine's error.
        reason: String,
    },
    /// The disk is full.
    #[error("database {path}: {reason}; free at least {} MiB on its disk, and start again", .space_needed.div_ceil(1 << 20))]
    FullDisk {
        /// The folder.
        path: PathBuf,
        /// The engine's error.
        reason: String,
        /// Bytes that must be free.
        space_needed: u64,
    },
    /// The folder cannot be used: permissions, disk.
    #[error("database {path}: {reason}")]
    Engine {
        /// The folder.
        path: PathBuf,
        /// The engine's error.
        reason: String,
    },
    /// A record could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}
