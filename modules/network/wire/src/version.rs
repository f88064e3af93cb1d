//! The table of versions (`docs/spec/p2p.md` 12, `docs/spec/upgrades.md` 12.1).

use strum::{IntoStaticStr, VariantArray};

use crate::StatusForm;

/// The kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[expect(missing_docs, reason = "the names are the protocol's")]
pub enum Kind {
    Status,
    NewBlockHashes,
    Transactions,
    GetBlockHeaders,
    BlockHeaders,
    GetBlockBodies,
    BlockBodies,
    NewBlock,
    OrderTx,
    LendingTx,
    GetNodeData,
    NodeData,
    GetReceipts,
    Receipts,
    Vote,
    Timeout,
    SyncInfo,
    NewPooledTransactionHashes,
    GetPooledTransactions,
    PooledTransactions,
}

impl Kind {
    /// Every kind, in the order of their declaration.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The name of the kind in the protocol.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A version of the protocol.
#[derive(Debug, PartialEq, Eq)]
pub struct Version {
    /// Its number.
    pub number: u32,
    /// Number of codes, including unused ones.
    pub length: u64,
    /// Layout of Status.
    pub status: StatusForm,
    /// Codes and their messages.
    pub rows: &'static [(u64, Kind)],
}

impl Version {
    /// The message with this code.
    pub fn kind(&self, code: u64) -> Option<Kind> {
        self.rows.iter().find(|(row, _)| *row == code).map(|(_, kind)| *kind)
    }

    /// The code of this message; `None` if the version does not have it.
    pub fn code(&self, kind: Kind) -> Option<u64> {
        self.rows.iter().find(|(_, row)| *row == kind).map(|(code, _)| *code)
    }
}

/// All versions, in order of preference. The node decides which of them it offers.
pub static VERSIONS: [Version; 5] = [
    Version { number: 165, length: 230, status: StatusForm::WithForkId, rows: &ROWS_165 },
    Version { number: 164, length: 227, status: StatusForm::WithForkId, rows: ROWS_165.split_at(ROWS_100).0 },
    Version { number: 100, length: 227, status: StatusForm::Plain, rows: ROWS_165.split_at(ROWS_100).0 },
    Version { number: 63, length: 17, status: StatusForm::Plain, rows: ROWS_165.split_at(ROWS_63).0 },
    Version { number: 62, length: 8, status: StatusForm::Plain, rows: ROWS_165.split_at(ROWS_62).0 },
];

/// The version with this number.
pub fn version(number: u32) -> Option<&'static Version> {
    VERSIONS.iter().find(|version| version.number == number)
}

const ROWS_62: usize = 8;
const ROWS_63: usize = 14;
const ROWS_100: usize = 17;

/// The rows of version 165; older versions use the first of them.
static ROWS_165: [(u64, Kind); 20] = [
    (0x00, Kind::Status),
    (0x01, Kind::NewBlockHashes),
    (0x02, Kind::Transactions),
    (0x03, Kind::GetBlockHeaders),
    (0x04, Kind::BlockHeaders),
    (0x05, Kind::GetBlockBodies),
    (0x06, Kind::BlockBodies),
    (0x07, Kind::NewBlock),
    (0x08, Kind::OrderTx),
    (0x09, Kind::LendingTx),
    (0x0d, Kind::GetNodeData),
    (0x0e, Kind::NodeData),
    (0x0f, Kind::GetReceipts),
    (0x10, Kind::Receipts),
    (0xe0, Kind::Vote),
    (0xe1, Kind::Timeout),
    (0xe2, Kind::SyncInfo),
    (0xe3, Kind::NewPooledTransactionHashes),
    (0xe4, Kind::GetPooledTransactions),
    (0xe5, Kind::PooledTransactions),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_within_its_versions_length_and_unique() {
        for version in &VERSIONS {
            for (index, (code, kind)) in version.rows.iter().enumerate() {
                assert!(*code < version.length, "{} {kind:?}", version.number);
                assert!(version.rows[..index].iter().all(|(other, row)| other < code && row != kind));
                assert_eq!((version.kind(*code), version.code(*kind)), (Some(*kind), Some(*code)));
            }
        }
    }

    #[test]
    fn versions_have_the_messages_of_the_specifications_table() {
        let has = |number, kind| version(number).unwrap().code(kind);
        assert_eq!([has(62, Kind::NewBlock), has(62, Kind::OrderTx), has(62, Kind::Receipts)], [Some(7), None, None]);
        assert_eq!([has(63, Kind::Receipts), has(63, Kind::Vote)], [Some(0x10), None]);
        assert_eq!([has(100, Kind::SyncInfo), has(164, Kind::SyncInfo)], [Some(0xe2); 2]);
        assert_eq!([has(164, Kind::PooledTransactions), has(165, Kind::PooledTransactions)], [None, Some(0xe5)]);
        for code in [0x0a, 0x0b, 0x0c, 0x11, 0xdf] {
            assert_eq!(version(100).unwrap().kind(code), None);
        }
    }
}
