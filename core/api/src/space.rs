//! Storage spaces of plugins: the port by which the host reaches them, their bounds, and why a commit is refused.

use alloy_primitives::Bytes;

use crate::{
    Failure, StoreError,
    messages::{CommitOutcome, CommitRecords, RecordPage, ScanRecords, SpaceUsage},
};

/// How much one space may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceLimits {
    /// Records.
    pub records: u64,
    /// Bytes of all keys and values.
    pub bytes: u64,
}

impl SpaceLimits {
    /// The longest key, bytes.
    pub const KEY: usize = 1024;
    /// The longest value, bytes.
    pub const VALUE: usize = 4 << 20;
    /// The most bytes of one commit.
    pub const COMMIT: usize = 16 << 20;
    /// The most records that one commit changes, those of ranges counted.
    pub const CHANGES: usize = 100_000;
    /// The most keys that are read at a time.
    pub const KEYS_READ: usize = 1_000;
    /// The most records that a page has.
    pub const RECORDS_READ: usize = 10_000;
    /// A page ends after so many bytes, but not before its first record.
    pub const BYTES_READ: usize = 4 << 20;
}

impl Default for SpaceLimits {
    /// Four million records, 1 GiB.
    fn default() -> Self {
        Self { records: 4_000_000, bytes: 1 << 30 }
    }
}

/// Why a space was not read or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// The changes would fill it beyond its bounds; nothing was changed.
    #[error(
        "storage of module {space} is full: it would hold {} records of {} bytes, allowed are {} of {}; \
         raise storage-records or storage in [plugins.{space}.limits]",
        usage.records, usage.bytes, usage.most_records, usage.most_bytes
    )]
    Full {
        /// Whose.
        space: String,
        /// What it would hold.
        usage: SpaceUsage,
    },
    /// A key, value, batch or question has a size that is not allowed.
    #[error("storage of module {space}: {what} has {found} {unit}, at most {most} are allowed")]
    Size {
        /// Whose.
        space: String,
        /// What was measured.
        what: &'static str,
        /// Its size.
        found: usize,
        /// In what.
        unit: &'static str,
        /// The bound.
        most: usize,
    },
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<SpaceError> for Failure {
    fn from(error: SpaceError) -> Self {
        match error {
            SpaceError::Store(error) => error.into(),
            bound => Self::limit(bound.to_string()),
        }
    }
}

/// Key-value spaces, one a name. A space exists from its first record on, and outlives whoever wrote it.
pub trait PluginSpaces: std::fmt::Debug + Send + Sync {
    /// The values of keys, in their order. A few microseconds each.
    ///
    /// # Errors
    /// [`SpaceError::Size`] when too many are asked for; [`SpaceError::Store`].
    fn get(&self, space: &str, keys: &[Bytes]) -> Result<Vec<Option<Bytes>>, SpaceError>;
    /// A stretch of records.
    ///
    /// # Errors
    /// [`SpaceError::Store`].
    fn scan(&self, space: &str, scan: &ScanRecords) -> Result<RecordPage, SpaceError>;
    /// Makes all changes of a commit, or none. May block for milliseconds.
    ///
    /// # Errors
    /// [`SpaceError`]; nothing was changed then.
    fn commit(&self, space: &str, commit: &CommitRecords, limits: SpaceLimits) -> Result<CommitOutcome, SpaceError>;
    /// How many records and bytes the space holds.
    ///
    /// # Errors
    /// [`SpaceError::Store`].
    fn usage(&self, space: &str) -> Result<(u64, u64), SpaceError>;
    /// Removes a space, and says what it held.
    ///
    /// # Errors
    /// [`SpaceError::Store`].
    fn purge(&self, space: &str) -> Result<(u64, u64), SpaceError>;
}
