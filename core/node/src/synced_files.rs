//! Files of a backup: copied with their length and hash, written whole, and synced to the disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;
use tenon_api::B256;

use crate::bounded_file;
use crate::exit::Stop;

/// The error for a file or folder.
pub(crate) fn failed(path: &Path) -> impl Fn(io::Error) -> Stop {
    let path = path.to_owned();
    move |error| Stop::Failure(format!("{}: {error}", path.display()))
}

/// Reads a regular file, and copies it to another if one is given; returns its length and hash. The copy is synced to
/// disk. Stops reading once the file is longer than `max`.
pub(crate) fn copy(from: &Path, to: Option<&Path>, max: u64) -> Result<(u64, B256), Stop> {
    let read = copy_unsynced(from, to, max)?;
    to.map_or(Ok(()), sync)?;
    Ok(read)
}

/// As [`copy`], without syncing the copy.
pub(crate) fn copy_unsynced(from: &Path, to: Option<&Path>, max: u64) -> Result<(u64, B256), Stop> {
    let mut source = bounded_file::regular(from).map_err(failed(from))?.take(max.saturating_add(1));
    let mut target = match to {
        None => None,
        Some(path) => {
            let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            Some((made.map_err(failed(path))?, path))
        }
    };
    let (mut hasher, mut bytes) = (Sha256::new(), 0);
    let mut piece = vec![0; 1 << 20];
    loop {
        let count = source.read(&mut piece).map_err(failed(from))?;
        let read = piece.get(..count).unwrap_or_default();
        if read.is_empty() {
            return Ok((bytes, B256::from_slice(&hasher.finalize())));
        }
        hasher.update(read);
        bytes += count as u64;
        if let Some((file, path)) = &mut target {
            file.write_all(read).map_err(failed(path))?;
        }
    }
}

/// Writes a file atomically.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Stop> {
    let folder: PathBuf = path.parent().map(Path::to_owned).unwrap_or_default();
    let write = || -> io::Result<()> {
        let mut file = NamedTempFile::new_in(&folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(failed(path))
}

/// Syncs a file, or the names in a folder, to disk.
pub(crate) fn sync(path: &Path) -> Result<(), Stop> {
    File::open(path).and_then(|file| file.sync_all()).map_err(failed(path))
}
