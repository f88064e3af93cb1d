//! A plugin's own storage space, and its removal. Topics `0x0780..`.
//!
//! A space is named by its module, and no message says which one is meant: the host knows who asks. It answers all of
//! these but [`PurgeSpace`] itself, so that no plugin can name another's space.

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
    /// The first key that counts.
    pub from: Bytes,
    /// The first key that does not count any more; none goes to the end of the space.
    pub to: Option<Bytes>,
    /// Begins at the end.
    pub is_descending: bool,
    /// Give at most so many; never more than [`SpaceLimits::RECORDS_READ`].
    pub limit: u64,
}
request!(ScanRecords => RecordPage, topic 0x0781, Storage);

/// A stretch of a space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordPage {
    /// Key and value, in the order that was asked for.
    pub records: Vec<(Bytes, Bytes)>,
    /// Whether the range has more than these.
    pub has_more: bool,
}

/// Changes of the plugin's own space: all of them are made, in their order, or none. When the answer is there they
/// survive the death of the process, and a power loss as far as the chain does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitRecords {
    /// What has to be there: key and value, none for no record. If anything else is there, nothing is changed.
    pub expects: Vec<(Bytes, Option<Bytes>)>,
    /// The changes.
    pub changes: Vec<RecordChange>,
}
request!(CommitRecords => CommitOutcome, topic 0x0782, Storage);

/// A change of a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordChange {
    /// Writes a record, over the one that has the key.
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
        /// The first key that goes.
        from: Bytes,
        /// The first key that stays.
        to: Bytes,
    },
}

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitOutcome {
    /// False when something else was there than expected.
    pub is_applied: bool,
    /// What the space holds now.
    pub usage: SpaceUsage,
}

/// How full the plugin's own space is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetSpaceUsage;
request!(GetSpaceUsage => SpaceUsage, topic 0x0783, Storage);

/// What a space holds, and what it may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpaceUsage {
    /// Records.
    pub records: u64,
    /// Bytes of all keys and values; the database needs less or more.
    pub bytes: u64,
    /// The most records that it may hold.
    pub most_records: u64,
    /// The most bytes that it may hold.
    pub most_bytes: u64,
}

/// Removes everything that a module has stored. Refused while it is enabled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeSpace {
    /// The module's name; it need not be loaded any more.
    pub module: String,
}
request!(PurgeSpace => SpaceUsage, topic 0x0784, Administer);

impl SpaceUsage {
    /// A usage with these bounds.
    pub const fn of(records: u64, bytes: u64, limits: SpaceLimits) -> Self {
        Self { records, bytes, most_records: limits.records, most_bytes: limits.bytes }
    }
}
