//! The journal's reader, for the fuzz target (`fuzz/`) only.

use crate::journal;

/// The records read from a journal of these bytes.
pub fn journal_records(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    // Reading from memory does not fail.
    let _ = journal::read_records(bytes, |raw| records.push(raw.to_vec()));
    records
}

/// Encodes a record as in a journal.
pub fn journal_record(raw: &[u8]) -> Vec<u8> {
    journal::record(raw)
}
