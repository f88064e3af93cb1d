//! Whether the database can currently be written.

use std::sync::atomic::Ordering;

use tenon_api::{BackgroundCondition, DatabaseWatch, StoreError, WriteOutcomes};

use crate::{database::was_damage_read, format::columns::Column, store::Store};

/// Key of a record that no release writes and that [`DatabaseWatch::try_write`] deletes.
const KEY_PROBE: &[u8] = b"probe";

impl DatabaseWatch for Store {
    fn writes(&self) -> WriteOutcomes {
        self.shared.database.writes.outcomes(self.needs_reload.load(Ordering::Acquire))
    }

    fn background(&self) -> Result<BackgroundCondition, StoreError> {
        let database = &self.shared.database;
        // The columns share one engine: both values are the same for each of them.
        let any = Column::Meta;
        Ok(BackgroundCondition {
            is_write_stopped: database.property(any, "rocksdb.is-write-stopped")? > 0,
            errors: database.property(any, "rocksdb.background-errors")?,
            is_folder_replaced: database.is_folder_replaced(),
            is_damaged: was_damage_read(),
        })
    }

    fn try_write(&self) -> Result<(), StoreError> {
        let mut batch = self.shared.database.batch();
        batch.delete(Column::Meta, KEY_PROBE)?;
        batch.write(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_changes_nothing_shows_that_writes_succeed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), crate::StoreOptions::for_tests()).unwrap();

        store.try_write().unwrap();

        let WriteOutcomes { last_success, failure, panicking_since } = store.writes();
        assert!(last_success.is_some() && failure.is_none() && panicking_since.is_none());
        assert_eq!(store.background().unwrap(), BackgroundCondition::default());
    }
}
