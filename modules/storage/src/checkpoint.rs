//! A consistent copy of the database, made while it is read and written.

use std::path::Path;

use tenon_api::StoreError;

use crate::store::Store;

impl Store {
    /// Copies the database into a folder that must not exist: the head and all that belongs to it at one instant. On
    /// the same file system, tables are linked instead of copied. Blocks wait while the memory tables are written;
    /// readers do not.
    ///
    /// # Errors
    /// [`StoreError::Engine`]; part of the folder may exist then.
    pub fn make_checkpoint(&self, folder: &Path) -> Result<(), StoreError> {
        let _writer = self.writer.lock();
        self.shared.database.checkpoint(folder)
    }
}
