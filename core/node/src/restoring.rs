//! The restoration of a chain into a data folder, from a backup or a snapshot: one at a time, and never beside the creation
//! of another chain there.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::backup::{failed, sync_folder};
use crate::checkpoints;
use crate::data_folder::DataFolder;
use crate::exit::Stop;

/// A restoration. Its database is complete only when [`Restoration::finish`] has renamed it.
pub(crate) struct Restoration<'a> {
    data: &'a DataFolder,
    unfinished: PathBuf,
    _lock: File,
}

impl<'a> Restoration<'a> {
    /// Locks a data folder without a chain.
    ///
    /// # Errors
    /// [`Stop::InUse`] while another process restores or creates a chain there, [`Stop::DataFolder`] if it has one.
    pub(crate) fn begin(data: &'a DataFolder) -> Result<Self, Stop> {
        let lock = File::open(data.path()).map_err(failed(data.path()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(data.path())),
            Err(TryLockError::Error(error)) => return Err(failed(data.path())(error)),
        }
        // Under the lock, because a chain may have been created until now.
        if data.database().exists() {
            return Err(Stop::DataFolder(format!(
                "{} already has a chain; choose another folder with --datadir",
                data.path().display()
            )));
        }
        Ok(Self { data, unfinished: data.path().join("db.restoring"), _lock: lock })
    }

    /// The folder of the unfinished database.
    pub(crate) fn database(&self) -> &Path {
        &self.unfinished
    }

    /// Creates the folder of the database, or keeps that of a killed attempt.
    pub(crate) fn resume(&self) -> Result<(), Stop> {
        make_private(&self.unfinished)
    }

    /// Creates the folder of the database empty.
    pub(crate) fn start_over(&self) -> Result<(), Stop> {
        make_empty(&self.unfinished)
    }

    /// Removes the unfinished database.
    pub(crate) fn discard(&self) -> Result<(), Stop> {
        checkpoints::remove(&self.unfinished).map_err(failed(&self.unfinished))
    }

    /// Gives the complete database its name, and the folder its genesis. If killed at any instant, the folder contains
    /// either no chain or all of it.
    pub(crate) fn finish(self, genesis: &[u8]) -> Result<(), Stop> {
        self.data.keep_genesis(genesis)?;
        sync_folder(&self.unfinished)?;
        // The last step: the database folder only exists when complete.
        let database = self.data.database();
        fs::rename(&self.unfinished, &database).map_err(failed(&database))?;
        sync_folder(self.data.path())
    }
}

/// Creates a folder for its owner only, unless it exists.
pub(crate) fn make_private(folder: &Path) -> Result<(), Stop> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map_err(failed(folder)),
    }
}

/// Removes a folder and creates it empty.
pub(crate) fn make_empty(folder: &Path) -> Result<(), Stop> {
    checkpoints::remove(folder).map_err(failed(folder))?;
    make_private(folder)
}

/// Locks a data folder in which a node or an import creates a chain, against restorations. Other creations are excluded by
/// the lock of the database. File systems without such locks have no protection.
///
/// # Errors
/// [`Stop::InUse`] while a chain is restored there.
pub(crate) fn lock_creation(data: &DataFolder) -> Result<Option<File>, Stop> {
    let Ok(lock) = File::open(data.path()) else { return Ok(None) };
    match lock.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Err(in_use(data.path())),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(lock)),
    }
}

fn in_use(folder: &Path) -> Stop {
    Stop::InUse(format!(
        "{}: another process restores or creates a chain there; wait until it ends, or choose another folder with --datadir",
        folder.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_restored_once_at_a_time_and_not_beside_the_creation_of_a_chain() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataFolder::create(folder.path()).unwrap();
        let restoration = Restoration::begin(&data).unwrap();
        assert!(matches!(Restoration::begin(&data), Err(Stop::InUse(_))));
        assert!(matches!(lock_creation(&data), Err(Stop::InUse(_))));

        restoration.start_over().unwrap();
        restoration.finish(b"{}").unwrap();
        assert!(data.database().is_dir() && !folder.path().join("db.restoring").exists());
        assert!(matches!(Restoration::begin(&data), Err(Stop::DataFolder(_))));
        fs::remove_dir(data.database()).unwrap();

        let creation = (lock_creation(&data).unwrap(), lock_creation(&data).unwrap());
        assert!(matches!(Restoration::begin(&data), Err(Stop::InUse(_))));
        drop(creation);
        assert!(Restoration::begin(&data).is_ok());
    }
}
