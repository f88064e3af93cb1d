//! Reads the columns that the other stages do not read whole: past states, changes of blocks, old tries, codes, and the
//! records of plugins. The engine compares the checksums of what it reads, and a missing table is its error.

use tenon_api::StoreError;

use super::{Check, Stop, VerifyStage, damage};
use crate::{
    database::cursor_status,
    format::{columns::Column, records},
};

/// The columns without [`Column::Changes`].
const COLUMNS: [Column; 7] = [
    Column::Meta,
    Column::AccountHistory,
    Column::SlotHistory,
    Column::Codes,
    Column::Trie,
    Column::TrieCheckpoints,
    Column::Spaces,
];

impl Check<'_> {
    /// Reads every record of these columns.
    pub(super) fn history(&mut self) -> Result<(), Stop> {
        let database = &self.store.shared.database;
        let estimate = |column: Column| database.property(column, "rocksdb.estimate-num-keys");
        let columns = COLUMNS.into_iter().chain([Column::Changes]);
        let total = columns.map(estimate).sum::<Result<u64, StoreError>>()?;
        self.start(VerifyStage::History, total)?;
        let mut done = 0;
        for column in COLUMNS {
            let mut cursor = database.range_cursor(column, &[], None)?;
            while cursor.valid() {
                done += 1;
                self.step(VerifyStage::History, done, total)?;
                cursor.next();
            }
            cursor_status(&cursor)?;
        }
        self.changes(done, total)
    }

    /// Every block above the oldest state has a list of its changes; without it the block cannot be unwound and its
    /// earlier state cannot be listed.
    fn changes(&mut self, mut done: u64, total: u64) -> Result<(), Stop> {
        let shared = &self.store.shared;
        let mut cursor = shared.database.range_cursor(Column::Changes, &[], None)?;
        let mut expected = shared.oldest_state() + 1;
        while let Some((key, record)) = cursor.item() {
            let number = key.try_into().map(u64::from_be_bytes);
            let number = number.map_err(|_| damage("changes", "have a key of another length"))?;
            let what = format!("changes of block {number}");
            records::decode_changes(record).ok_or_else(|| damage(what, "do not decode"))?;
            if number > expected {
                break;
            }
            expected += u64::from(number == expected);
            done += 1;
            self.step(VerifyStage::History, done, total)?;
            cursor.next();
        }
        cursor_status(&cursor)?;
        if expected <= self.head.0 {
            return Err(damage(format!("changes of block {expected}"), "are missing"));
        }
        Ok(())
    }
}
