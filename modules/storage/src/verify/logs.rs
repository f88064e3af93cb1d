//! Checks the log index: it refers only to existing logs with the value.

use super::{Check, Stop, VerifyStage, damage};
use crate::{
    database::cursor_status,
    format::{
        columns::Column,
        keys::{self, LOG_INDEX_PREFIX_LENGTH},
        records,
    },
    write::commit::log_prefixes,
};

impl Check<'_> {
    /// Walks the whole index.
    pub(super) fn log_index(&mut self) -> Result<(), Stop> {
        let shared = &self.store.shared;
        let total = shared.database.property(Column::LogIndex, "rocksdb.estimate-num-keys")?;
        self.start(VerifyStage::LogIndex, total)?;
        let mut cursor = shared.database.range_cursor(Column::LogIndex, &[], None)?;
        let mut done = 0;
        while let Some((key, record)) = cursor.item() {
            let (prefix, number) = key
                .split_at_checked(LOG_INDEX_PREFIX_LENGTH)
                .and_then(|(prefix, number)| Some((prefix, u64::from_be_bytes(number.try_into().ok()?))))
                .ok_or_else(|| damage("log index", "has a key of another length"))?;
            let what = || format!("log index of block {number}");
            let positions = records::decode_positions(record).ok_or_else(|| damage(what(), "does not decode"))?;
            for position in positions {
                let log = shared.database.get(Column::Logs, &keys::log(number, position))?;
                let log = log.as_deref().and_then(records::decode_log);
                let has_value = log.is_some_and(|stored| log_prefixes(&stored.log).any(|found| found == prefix));
                if !has_value || number > self.head.0 {
                    return Err(damage(what(), format!("names log {position}, which does not have the value")));
                }
            }
            done += 1;
            self.step(VerifyStage::LogIndex, done, total)?;
            cursor.next();
        }
        Ok(cursor_status(&cursor)?)
    }
}
