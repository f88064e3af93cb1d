//! The chain database's own report of its condition.

use crate::StoreError;

/// Outcomes of the database's writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOutcomes {
    /// Unix time of the last successful write, seconds; `None` if there was none since the database was opened.
    pub last_success: Option<u64>,
    /// Set when the last write failed.
    pub failure: Option<WriteFailure>,
    /// Set while the writer is broken: the last changes of the chain, two or more, have panicked, or one has and the
    /// database could not be read again since. Unix time of the first of these panics, seconds.
    /// [`DatabaseWatch::try_write`] does not end it.
    pub panicking_since: Option<u64>,
}

/// A run of failed writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFailure {
    /// Unix time of the first failure since the last success, seconds.
    pub since: u64,
    /// The engine's error for the latest failure.
    pub reason: String,
    /// If the disk is full: bytes that must be free before writes succeed again.
    pub space_needed: Option<u64>,
}

/// State of the engine's background work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackgroundCondition {
    /// Whether the engine has stopped writes because its background work is behind.
    pub is_write_stopped: bool,
    /// Flushes and compactions that failed since the database was opened.
    pub errors: u64,
    /// Whether the database's folder was renamed or replaced since it was opened. Nothing is written then.
    pub is_folder_replaced: bool,
    /// Whether a checksum was wrong since the process started: the disk has changed what was written.
    pub is_damaged: bool,
}

/// Monitors the node's database.
pub trait DatabaseWatch: Send + Sync {
    /// Outcomes of writes so far. Reads a few atomics, without I/O.
    fn writes(&self) -> WriteOutcomes;
    /// State of the background work. Takes the engine's lock, so call it on a thread that may block.
    ///
    /// # Errors
    /// [`StoreError::Engine`] if the engine does not report it.
    fn background(&self) -> Result<BackgroundCondition, StoreError>;
    /// Writes a record that changes nothing and waits until it is on disk, to find out whether writes succeed again.
    ///
    /// # Errors
    /// [`StoreError::Engine`] if they do not.
    fn try_write(&self) -> Result<(), StoreError>;
}
