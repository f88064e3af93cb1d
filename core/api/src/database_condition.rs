//! What the chain database says about its own condition.

use crate::StoreError;

/// How the writes of the database ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOutcomes {
    /// Unix time of the last write that succeeded, seconds; none when none did since the database was opened.
    pub last_success: Option<u64>,
    /// Set when the last write failed.
    pub failure: Option<WriteFailure>,
}

/// Writes that fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFailure {
    /// Unix time of the first that failed since the last one that succeeded, seconds.
    pub since: u64,
    /// The engine's words about the latest.
    pub reason: String,
}

/// How the background work of the database's engine does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackgroundCondition {
    /// Whether the engine takes no writes because its background work is behind.
    pub is_write_stopped: bool,
    /// Flushes and compactions that failed since the database was opened.
    pub errors: u64,
}

/// Lets the node look after its database.
pub trait DatabaseWatch: Send + Sync {
    /// How writes have ended so far. Reads a few atomics, without I/O.
    fn writes(&self) -> WriteOutcomes;
    /// How the background work does. Takes the engine's lock, so it belongs on a thread that may wait.
    ///
    /// # Errors
    /// [`StoreError::Engine`] when the engine does not say.
    fn background(&self) -> Result<BackgroundCondition, StoreError>;
    /// Writes something that changes nothing and waits until it is on the disk, to learn whether writes succeed again.
    ///
    /// # Errors
    /// [`StoreError::Engine`] when they do not.
    fn try_write(&self) -> Result<(), StoreError>;
}
