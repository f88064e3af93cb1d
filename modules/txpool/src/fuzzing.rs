//! The reader of the journal, as the fuzz target sees it (`fuzz/`). Not for others.

use crate::journal;

/// The records that a journal of these bytes gives back.
pub fn journal_records(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    // Bytes in memory do not fail.
    let _ = journal::read_records(bytes, |raw| records.push(raw.to_vec()));
    records
}

/// How a record stands in a journal.
pub fn journal_record(raw: &[u8]) -> Vec<u8> {
    journal::record(raw)
}
