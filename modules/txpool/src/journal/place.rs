//! Files of the journal: opens, copies and replaces only regular files.

use std::{
    ffi::OsString,
    fs::{self, File, FileType, OpenOptions},
    io,
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use super::{JournalError, MODE};

/// Maximum number of kept copies of damaged journals.
const MAX_COPIES: u32 = 99;

/// The path of the file itself, with links resolved.
///
/// # Errors
/// [`JournalError::NoFile`] for a link without a target, or if it is not a regular file.
pub(super) fn real_path(named: &Path) -> Result<PathBuf, JournalError> {
    let refused = |found| JournalError::NoFile { path: named.to_owned(), found };
    let failed = JournalError::io(named);
    match fs::metadata(named) {
        Ok(found) if found.is_file() && named.is_symlink() => named.canonicalize().map_err(failed),
        Ok(found) if found.is_file() => Ok(named.to_owned()),
        Ok(found) => Err(refused(kind_of(found.file_type()))),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
        Err(_) if named.is_symlink() => Err(refused("a link to a file that does not exist")),
        Err(_) => Ok(named.to_owned()),
    }
}

fn kind_of(found: FileType) -> &'static str {
    if found.is_dir() {
        "a folder"
    } else if found.is_fifo() {
        "a pipe"
    } else if found.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

/// Opens the file for reading and appending, and creates it if it does not exist.
///
/// # Errors
/// [`JournalError::NoFile`] if another kind of file has taken its place.
pub(super) fn open(path: &Path) -> Result<File, JournalError> {
    let failed = JournalError::io(path);
    // Non-blocking, because opening a pipe would wait for another process.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW).bits().cast_signed();
    let mut options = OpenOptions::new();
    let file = options.create(true).read(true).append(true).mode(MODE).custom_flags(flags).open(path);
    let file = file.map_err(&failed)?;
    let found = file.metadata().map_err(&failed)?;
    if found.is_file() {
        return Ok(file);
    }
    Err(JournalError::NoFile { path: path.to_owned(), found: kind_of(found.file_type()) })
}

/// The path with a suffix appended to its file name.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().map(OsString::from).unwrap_or_default();
    name.push(ending);
    path.with_file_name(name)
}

/// Removes the temporary file of a rotation that was killed.
///
/// # Errors
/// [`JournalError::NoFile`] if the path is not a regular file.
pub(super) fn remove_leftover(path: &Path) -> Result<(), JournalError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(JournalError::io(path)(error)),
        Ok(found) if found.is_file() => fs::remove_file(path).map_err(JournalError::io(path)),
        Ok(found) if found.is_symlink() => Err(JournalError::NoFile { path: path.to_owned(), found: "a link" }),
        Ok(found) => Err(JournalError::NoFile { path: path.to_owned(), found: kind_of(found.file_type()) }),
    }
}

/// Copies a file to an unused name next to it.
///
/// # Errors
/// If it cannot be copied, or all names are taken.
pub(super) fn copy_aside(path: &Path) -> io::Result<PathBuf> {
    for number in 1..=MAX_COPIES {
        let copy = beside(path, &format!(".damaged-{number}"));
        let made = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&copy);
        let mut made = match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            other => other?,
        };
        let copied =
            File::open(path).and_then(|mut source| io::copy(&mut source, &mut made)).and_then(|_| made.sync_all());
        if let Err(error) = copied {
            let _ = fs::remove_file(&copy);
            return Err(error);
        }
        return Ok(copy);
    }
    Err(io::Error::other(format!(
        "it is damaged, and there are already {MAX_COPIES} copies of damaged journals beside it; inspect and remove \
         them"
    )))
}
