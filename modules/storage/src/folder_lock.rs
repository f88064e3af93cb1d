//! A lock on the folder itself, in addition to the engine's. The engine locks a file in the folder: if that file is
//! removed, another process can open the database while it is in use, and damage it.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use tenon_api::StoreError;

use crate::OpenError;

/// A lock on the folder, released on drop or at the end of the process. Removing files from the folder does not release
/// it.
///
/// It also notices that the folder was renamed or replaced. The engine names its files by path, so it would write into
/// the folder that is there now, and damage both.
#[derive(Debug)]
pub(crate) struct FolderLock {
    path: PathBuf,
    /// Closing it releases the lock.
    folder: File,
    /// Whether it was noticed that the folder was replaced. This is final, because the engine may have written since.
    was_replaced: AtomicBool,
}

impl FolderLock {
    /// Takes the lock. If the file system does not support locks on folders, only the engine's lock protects the
    /// database, which is logged.
    ///
    /// # Errors
    /// [`OpenError::Locked`] when the folder is in use, [`OpenError::Engine`] when it can't be read.
    pub(crate) fn take(path: &Path) -> Result<Self, OpenError> {
        let failed = |error: &io::Error| OpenError::Engine { path: path.into(), reason: error.to_string() };
        let folder = File::open(path).map_err(|error| failed(&error))?;
        match folder.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::Locked { path: path.into() }),
            Err(TryLockError::Error(error)) => {
                tracing::warn!(path = %path.display(), %error, "could not lock the database's folder; start no other \
                    process with it");
            }
        }
        Ok(Self { path: path.into(), folder, was_replaced: AtomicBool::new(false) })
    }

    /// Whether the path refers to another folder than the locked one, or to none. A path that cannot be read for another
    /// reason counts as unchanged.
    fn is_replaced(&self) -> bool {
        let identity = |folder: fs::Metadata| (folder.dev(), folder.ino());
        match (fs::metadata(&self.path), self.folder.metadata()) {
            (Ok(named), Ok(locked)) => identity(named) != identity(locked),
            (Err(error), _) => error.kind() == io::ErrorKind::NotFound,
            (Ok(_), Err(_)) => false,
        }
    }

    /// Refuses to write if the folder was replaced, now or before.
    ///
    /// # Errors
    /// [`StoreError::Engine`]; the first is logged.
    pub(crate) fn require_in_place(&self) -> Result<(), StoreError> {
        if !self.was_replaced.load(Ordering::Relaxed) && !self.is_replaced() {
            return Ok(());
        }
        if !self.was_replaced.swap(true, Ordering::Relaxed) {
            tracing::error!(path = %self.path.display(), "the database's folder was moved away while it was open; no \
                more blocks are written; stop the node, put the folder back, and start again");
        }
        let path = self.path.display();
        Err(StoreError::Engine(format!(
            "{path} is no longer the folder that was opened, so nothing was written to it; put that folder back and \
             start again"
        )))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use std::collections::BTreeSet;

    use tenon_api::DatabaseWatch as _;

    use super::*;
    use crate::{Store, StoreOptions};

    #[test]
    fn a_database_in_use_stays_closed_to_others_though_the_engines_lock_was_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let store = Store::open(&path, StoreOptions::for_tests()).unwrap();
        std::fs::remove_file(path.join("LOCK")).unwrap();

        assert_eq!(
            Store::open(&path, StoreOptions::for_tests()).unwrap_err(),
            OpenError::Locked { path: path.clone() }
        );

        drop(store);
        assert!(Store::open(&path, StoreOptions::for_tests()).is_ok());
    }

    #[test]
    fn nothing_is_written_after_the_folder_was_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("db"), folder.path().join("moved"));
        let other = folder.path().join("other");
        drop(Store::open(&other, StoreOptions::for_tests()).unwrap());
        let store = Store::open(&path, StoreOptions::for_tests()).unwrap();
        fs::rename(&path, &moved).unwrap();
        assert!(store.background().unwrap().is_folder_replaced);
        fs::rename(&other, &path).unwrap();
        let names = || fs::read_dir(&path).unwrap().map(|file| file.unwrap().file_name()).collect::<BTreeSet<_>>();
        let before = names();

        assert!(store.try_write().unwrap_err().to_string().contains("no longer the folder"));
        assert!(store.flush().unwrap_err().to_string().contains("no longer the folder"));
        assert!(store.make_checkpoint(&folder.path().join("copy")).is_err());
        assert!(store.background().unwrap().is_folder_replaced);
        drop(store);

        assert_eq!(names(), before);
        // Under other names, as the engine keeps the path locked in this process.
        fs::rename(&path, &other).unwrap();
        drop(Store::open(&other, StoreOptions::for_tests()).unwrap());
        drop(Store::open(&moved, StoreOptions::for_tests()).unwrap());
    }
    #[test]
    fn a_folder_that_was_put_back_is_not_written_before_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("db"), folder.path().join("moved"));
        let store = Store::open(&path, StoreOptions::for_tests()).unwrap();
        fs::rename(&path, &moved).unwrap();
        store.try_write().unwrap_err();

        fs::rename(&moved, &path).unwrap();

        store.try_write().unwrap_err();
        assert!(store.background().unwrap().is_folder_replaced);
    }
}
