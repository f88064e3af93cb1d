//! A plugin's own storage space, and its removal. Topics `0x0780..`.
//!
//! A space belongs to a module, and no message names it: the host knows the caller. It answers all of these except
//! [`PurgeSpace`] itself, so that no plugin can name another's space.

use alloy_primitives::Bytes;
use serde::{Deserialize, Serialize};

use super::request;
use crate::SpaceLimits;

/// Values of the plugin's own space, by key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetRecords {
    /// The keys; at most [`SpaceLimits::KEYS_READ`].
    pub keys: Vec<Bytes>,
}
request!(GetRecords => Vec<Option<Bytes>>, topic 0x0780, Storage);

/// Records of the plugin's own space, in the order of their keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanRecords {
    /// The first key included.
    pub from: Bytes,
    /// The first key excluded; `None` reads to the end of the space.
    pub to: Option<Bytes>,
    /// Whether to begin at the end.
    pub is_descending: bool,
    /// Maximum number of records; capped at [`SpaceLimits::RECORDS_READ`].
    pub limit: u64,
}
request!(ScanRecords => RecordPage, topic 0x0781, Storage);

/// A page of records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordPage {
    /// Key and value, in the requested order.
    pub records: Vec<(Bytes, Bytes)>,
    /// Whether the range has more records.
    pub has_more: bool,
}

/// Changes of the plugin's own space: all of them are applied in order, or none. Once answered they survive the death
/// of the process, and a power loss as far as the chain does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitRecords {
    /// Preconditions: key and value, `None` for no record. If one does not hold, nothing is changed.
    pub expects: Vec<(Bytes, Option<Bytes>)>,
    /// The changes.
    pub changes: Vec<RecordChange>,
}
request!(CommitRecords => CommitOutcome, topic 0x0782, Storage);

/// A change of a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordChange {
    /// Writes a record, replacing one with the same key.
    Put {
        /// 1 to [`SpaceLimits::KEY`] bytes.
        key: Bytes,
        /// At most [`SpaceLimits::VALUE`] bytes.
        value: Bytes,
    },
    /// Removes a record, if there is one.
    Delete {
        /// Its key.
        key: Bytes,
    },
    /// Removes all records of a range.
    DeleteRange {
        /// The first key removed.
        from: Bytes,
        /// The first key kept.
        to: Bytes,
    },
}

/// Result of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitOutcome {
    /// False if a precondition did not hold.
    pub is_applied: bool,
    /// The space's use afterwards.
    pub usage: SpaceUsage,
}

/// The use of the plugin's own space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetSpaceUsage;
request!(GetSpaceUsage => SpaceUsage, topic 0x0783, Storage);

/// Use and limits of a space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpaceUsage {
    /// Number of records.
    pub records: u64,
    /// Bytes of all keys and values; the space on disk differs.
    pub bytes: u64,
    /// Maximum number of records.
    pub max_records: u64,
    /// Maximum number of bytes.
    pub max_bytes: u64,
}

/// Removes all records of a module. Refused while it is enabled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeSpace {
    /// The module's name; it need not be loaded.
    pub module: String,
}
request!(PurgeSpace => SpaceUsage, topic 0x0784, Administer);

impl SpaceUsage {
    /// A usage with these limits.
    pub const fn of(records: u64, bytes: u64, limits: SpaceLimits) -> Self {
        Self { records, bytes, max_records: limits.records, max_bytes: limits.bytes }
    }
}
