//! The restoration of a chain into a data folder, from a backup or a snapshot: one at a time, and never while another
//! chain is created there.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::backup_source::SourceError;
use crate::checkpoints;
use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::synced_files::{failed, sync};

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

    /// Finishes if the database could be filled, and removes it otherwise: the next attempt starts over.
    ///
    /// # Errors
    /// The given one, or that of finishing.
    pub(crate) fn finish_or_discard<T>(
        &self,
        filled: Result<T, Stop>,
        genesis_of: impl Fn(&T) -> &[u8],
    ) -> Result<T, Stop> {
        let finished = filled.and_then(|outcome| self.finish(genesis_of(&outcome)).map(|()| outcome));
        if finished.is_err() {
            self.discard();
        }
        finished
    }

    /// Finishes if the database could be filled. Otherwise keeps it for the next attempt, which continues it, or
    /// removes it if the source is wrong.
    ///
    /// # Errors
    /// The given one, or that of finishing.
    pub(crate) fn finish_or_keep<T>(
        &self,
        filled: Result<T, SourceError>,
        genesis_of: impl Fn(&T) -> &[u8],
    ) -> Result<T, Stop> {
        match filled.and_then(|outcome| Ok(self.finish(genesis_of(&outcome)).map(|()| outcome)?)) {
            Ok(outcome) => Ok(outcome),
            Err(SourceError::Wrong(stop)) => {
                self.discard();
                Err(stop)
            }
            Err(SourceError::Attempt(stop)) => Err(stop.with_advice(&format!(
                "what was copied is kept in {} for the next attempt; remove that folder to start over",
                self.unfinished.display()
            ))),
        }
    }

    /// Removes the unfinished database. A failure is only logged: the error that led here is the one to report.
    fn discard(&self) {
        if let Err(error) = checkpoints::remove(&self.unfinished) {
            tracing::warn!(path = %self.unfinished.display(), %error, "could not remove the unfinished database");
        }
    }

    /// Gives the complete database its name, and the folder its genesis. If killed at any instant, the folder contains
    /// either no chain or all of it.
    fn finish(&self, genesis: &[u8]) -> Result<(), Stop> {
        self.data.keep_genesis(genesis)?;
        // All files are synced here: syncing each one as it is written would take minutes for a source with many small
        // files.
        for entry in fs::read_dir(&self.unfinished).map_err(failed(&self.unfinished))? {
            sync(&entry.map_err(failed(&self.unfinished))?.path())?;
        }
        sync(&self.unfinished)?;
        // The last step: the database folder only exists when complete.
        let database = self.data.database();
        fs::rename(&self.unfinished, &database).map_err(failed(&database))?;
        sync(self.data.path())
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

/// Locks a data folder in which a node or an import creates a chain, against restorations. Other creations are excluded
/// by the lock of the database. File systems without such locks have no protection.
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
        drop(restoration);
        assert!(data.database().is_dir() && !folder.path().join("db.restoring").exists());
        assert!(matches!(Restoration::begin(&data), Err(Stop::DataFolder(_))));
        fs::remove_dir(data.database()).unwrap();

        let creation = (lock_creation(&data).unwrap(), lock_creation(&data).unwrap());
        assert!(matches!(Restoration::begin(&data), Err(Stop::InUse(_))));
        drop(creation);
        assert!(Restoration::begin(&data).is_ok());
    }
}
