//! Finds and locks the database's folder.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::ReferenceDataError;

/// Places of the database below a folder that an operator may name: the database itself, the instance's folder, the
/// data folder.
const PLACES: [&str; 3] = ["", "chaindata", "XDC/chaindata"];

/// A file that every LevelDB contains.
const CURRENT: &str = "CURRENT";

/// The file that a process keeps locked while it has the database open.
const LOCK: &str = "LOCK";

/// Finds the database's folder.
///
/// # Errors
/// [`ReferenceDataError::NotFound`].
pub(crate) fn find(named: &Path) -> Result<PathBuf, ReferenceDataError> {
    let found = PLACES.iter().map(|place| if place.is_empty() { named.to_owned() } else { named.join(place) });
    let mut found = found.filter(|folder| folder.join(CURRENT).is_file());
    let folder = found.next().ok_or_else(|| ReferenceDataError::NotFound { path: named.to_owned() })?;
    fs::canonicalize(&folder).map_err(|source| ReferenceDataError::Io { path: folder, source })
}

/// Takes the lock that a node holds while it runs. No node can start on the folder until the lock is dropped. Returns
/// `None` if there is no lock file, as in a copy of a folder.
///
/// # Errors
/// [`ReferenceDataError::InUse`] if a node holds it.
pub(crate) fn lock(folder: &Path) -> Result<Option<File>, ReferenceDataError> {
    let path = folder.join(LOCK);
    if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
        return Err(ReferenceDataError::Damaged { path, what: "it is not a regular file".to_owned() });
    }
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ReferenceDataError::Io { path, source }),
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(ReferenceDataError::InUse { path: folder.to_owned() }),
        Err(TryLockError::Error(source)) => Err(ReferenceDataError::Io { path, source }),
    }
}
