//! A lock on the folder itself, in addition to the engine's. The engine locks a file in the folder: if that file is
//! removed, another process can open the database while it is in use, and damage it.

use std::{
    fs::{File, TryLockError},
    io,
    path::Path,
};

use crate::OpenError;

/// A lock on the folder, released on drop or at the end of the process. Removing files from the folder does not release
/// it.
#[derive(Debug)]
pub(crate) struct FolderLock(#[expect(dead_code, reason = "held open: closing it lets go of the lock")] Option<File>);

impl FolderLock {
    /// Takes the lock. If the file system does not support locks on folders, only the engine's lock protects the
    /// database.
    ///
    /// # Errors
    /// [`OpenError::Locked`] when the folder is in use, [`OpenError::Engine`] when it can't be read.
    pub(crate) fn take(path: &Path) -> Result<Self, OpenError> {
        let failed = |error: &io::Error| OpenError::Engine { path: path.into(), reason: error.to_string() };
        let folder = File::open(path).map_err(|error| failed(&error))?;
        match folder.try_lock() {
            Ok(()) => Ok(Self(Some(folder))),
            Err(TryLockError::WouldBlock) => Err(OpenError::Locked { path: path.into() }),
            Err(TryLockError::Error(error)) => {
                tracing::debug!(path = %path.display(), %error, "the file system does not lock folders");
                Ok(Self(None))
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;
    use crate::{Store, StoreOptions};

    #[test]
    fn a_database_in_use_stays_closed_to_others_though_the_engines_lock_was_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let store = Store::open(&path, StoreOptions::default()).unwrap();
        std::fs::remove_file(path.join("LOCK")).unwrap();

        assert_eq!(Store::open(&path, StoreOptions::default()).unwrap_err(), OpenError::Locked { path: path.clone() });

        drop(store);
        assert!(Store::open(&path, StoreOptions::default()).is_ok());
    }
}
