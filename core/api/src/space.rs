//! Storage spaces of plugins: the host's port to them, their limits, and errors of commits.

use alloy_primitives::Bytes;

use crate::{
    StoreError,
    messages::{CommitOutcome, CommitRecords, RecordPage, ScanRecords, SpaceUsage},
};

/// The capacity of one space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceLimits {
    /// Records.
    pub records: u64,
    /// Bytes of all keys and values.
    pub bytes: u64,
}

impl SpaceLimits {
    /// Maximum length of a key, bytes.
    pub const KEY: usize = 1024;
    /// Maximum length of a value, bytes.
    pub const VALUE: usize = 4 << 20;
    /// Maximum size of one commit, bytes.
    pub const COMMIT: usize = 16 << 20;
    /// Maximum number of records that one commit changes, including those of ranges.
    pub const CHANGES: usize = 100_000;
    /// Maximum number of keys in one read.
    pub const KEYS_READ: usize = 1_000;
    /// Maximum number of records in a page.
    pub const RECORDS_READ: usize = 10_000;
    /// A page ends after this many bytes, but not before its first record.
    pub const BYTES_READ: usize = 4 << 20;
}

impl Default for SpaceLimits {
    /// The limits of a plugin whose settings have none.
    fn default() -> Self {
        Self { records: 4_000_000, bytes: 1 << 30 }
    }
}

/// Why a space could not be read or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// The changes would exceed the space's limits; nothing was changed.
    #[error(
        "storage of module {space} is full: it would have {} records with {} bytes, but at most {} with {} bytes are \
         allowed; raise storage-records or storage in [plugins.{space}.limits]",
        usage.records, usage.bytes, usage.max_records, usage.max_bytes
    )]
    Full {
        /// Name of the space.
        space: String,
        /// Its use after the changes.
        usage: SpaceUsage,
    },
    /// A key, value, batch or request is too large or too small.
    #[error("storage of module {space}: {what} has {found} {unit}, at most {max} are allowed")]
    Size {
        /// Name of the space.
        space: String,
        /// The quantity that was measured.
        what: &'static str,
        /// Its size.
        found: usize,
        /// Its unit.
        unit: &'static str,
        /// The limit.
        max: usize,
    },
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Named key-value spaces. A space exists from its first record on, and outlives the module that wrote it.
pub trait PluginSpaces: std::fmt::Debug + Send + Sync {
    /// The values of keys, in their order. A few microseconds each.
    ///
    /// # Errors
    /// [`SpaceError::Size`] if too many keys are requested; [`SpaceError::Store`].
    fn get(&self, space: &str, keys: &[Bytes]) -> Result<Vec<Option<Bytes>>, SpaceError>;
    /// Reads a page of records.
    ///
    /// # Errors
    /// [`SpaceError::Store`].
    fn scan(&self, space: &str, scan: &ScanRecords) -> Result<RecordPage, SpaceError>;
    /// Applies all changes of a commit, or none. May block for milliseconds.
    ///
    /// # Errors
    /// [`SpaceError`]; nothing was changed then.
    fn commit(&self, space: &str, commit: &CommitRecords, limits: SpaceLimits) -> Result<CommitOutcome, SpaceError>;
    /// How many records and bytes the space holds.
    ///
    /// # Errors
    /// [`SpaceError::Store`].
    fn usage(&self, space: &str) -> Result<(u64, u64), SpaceError>;
    /// Removes a space and returns its former use.
    ///
    /// # Errors
    /// [`SpaceError::Store`].
    fn purge(&self, space: &str) -> Result<(u64, u64), SpaceError>;
}
