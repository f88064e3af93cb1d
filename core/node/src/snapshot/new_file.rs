//! Files that are written under another name first.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::exit::Stop;
use crate::synced_files::failed;

/// Suffix of a file that is being written.
pub(super) const NEW: &str = ".new";

/// The path with this suffix.
pub(super) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// Writes a file atomically. An attempt that was killed leaves a file whose name the next one reuses.
pub(super) fn write_named(path: &Path, bytes: &[u8]) -> Result<(), Stop> {
    let new = with_end(path, NEW);
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().map_err(failed(path))
}
