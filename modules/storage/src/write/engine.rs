//! Records that the consensus engine keeps across restarts.

use tenon_api::{EngineRecords, StoreError};

use crate::{format::columns::Column, store::Store};

/// Prefix of the names, which keeps them apart from the folder's own records.
const PREFIX: &str = "engine/";

fn key(name: &str) -> String {
    format!("{PREFIX}{name}")
}

impl EngineRecords for Store {
    fn record(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.shared.database.get(Column::Meta, key(name).as_bytes())?.map(|record| record.to_vec()))
    }

    fn put(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        let mut batch = self.shared.database.batch();
        batch.put(Column::Meta, key(name), value)?;
        batch.write(true)
    }
}
