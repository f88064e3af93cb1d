//! Reads files that may be hostile: a copy of a log can contain devices, pipes and files without end.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use rustix::fs::OFlags;

/// Opens a regular file. Does not wait for a writer if it is a pipe.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}

/// Reads a regular file of at most `max` bytes.
pub(crate) fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    // Large enough at once: a buffer that grows leaves copies of a key in freed memory.
    let mut bytes = Vec::with_capacity(file.metadata()?.len().min(max) as usize + 64);
    file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 <= max {
        return Ok(bytes);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "it is too long"))
}
