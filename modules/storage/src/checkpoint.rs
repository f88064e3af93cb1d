//! A copy of the database as it stands, made while it is read and written.

use std::path::Path;

use tenon_api::StoreError;

use crate::store::Store;

impl Store {
    /// Makes a copy of the database in a folder that must not exist: the head and all that belongs to it at one moment.
    /// Tables are linked, not copied, when the folder lies on the same file system. Blocks wait meanwhile, for as long as
    /// writing the memory tables takes; readers do not.
    ///
    /// # Errors
    /// [`StoreError::Engine`]; a part of the folder may be there.
    pub fn make_checkpoint(&self, folder: &Path) -> Result<(), StoreError> {
        let _writer = self.writer.lock();
        self.shared.database.checkpoint(folder)
    }
}
