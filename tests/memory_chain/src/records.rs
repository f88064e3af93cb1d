//! The records of a consensus engine.

use std::collections::HashMap;

use parking_lot::Mutex;
use tenon_api::{EngineRecords, StoreError};

/// Records by their name, which survive a simulated restart.
#[derive(Default)]
pub struct MemoryRecords(pub Mutex<HashMap<String, Vec<u8>>>);

impl EngineRecords for MemoryRecords {
    fn record(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.lock().get(name).cloned())
    }

    fn put(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        self.0.lock().insert(name.to_owned(), value.to_owned());
        Ok(())
    }
}
