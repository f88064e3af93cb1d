//! The decoder of the engine's records, for the fuzz target (`fuzz/`) only.

use std::sync::{Mutex, PoisonError};

use tenon_api::{EngineRecords, StoreError};

use super::records::{voting_state, write_voting_state};

/// A single record, under any name.
struct OneRecord(Mutex<Option<Vec<u8>>>);

impl EngineRecords for OneRecord {
    fn record(&self, _: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn put(&self, _: &str, value: &[u8]) -> Result<(), StoreError> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(value.to_vec());
        Ok(())
    }
}

/// Decodes these bytes as a record of the voting state and encodes it again; `None` if they are refused.
pub fn voting_record(bytes: &[u8]) -> Option<Vec<u8>> {
    let records = OneRecord(Mutex::new(Some(bytes.to_vec())));
    let state = voting_state(&records).ok()?;
    write_voting_state(&records, &state).ok()?;
    records.record("").ok().flatten()
}
