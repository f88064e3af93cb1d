//! Operators' files that are read whole, with a maximum size: an endless or wrong file must not use all memory.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use tenon_config::Mnemonic;
use zeroize::Zeroizing;

/// Maximum size of a genesis file. Those of the public networks have at most 2 MB; a hundred thousand accounts take
/// ten.
const GENESIS: u64 = 256 << 20;
/// Maximum size of a file with a mnemonic.
const MNEMONIC: u64 = 4 << 10;
/// Maximum size of a file with passwords or a key.
const SECRET: u64 = 1 << 20;
/// Maximum size of a file with another node's data about a block.
const REFERENCE: u64 = 1 << 30;

/// Maximum size of a backup's list: some hundred bytes for each of a hundred thousand files.
const MANIFEST: u64 = 64 << 20;

/// Maximum size of a file with a transaction or typed data to sign: 16 MB of data, two digits per byte.
const SIGNING_REQUEST: u64 = 40 << 20;

/// Reads a transaction or typed data to sign.
///
/// # Errors
/// If it can't be read, or is larger than any device accepts.
pub(crate) fn signing_request(path: &Path) -> io::Result<Vec<u8>> {
    read(path, SIGNING_REQUEST)
}

/// Reads the list of a backup.
///
/// # Errors
/// If it can't be read, is not a regular file, or is too large.
pub(crate) fn manifest(path: &Path) -> io::Result<Vec<u8>> {
    read_from(regular(path)?, MANIFEST)
}

/// Reads the genesis file of a backup.
///
/// # Errors
/// If it can't be read, is not a regular file, or is too large.
pub(crate) fn genesis_of_backup(path: &Path) -> io::Result<Vec<u8>> {
    read_from(regular(path)?, GENESIS)
}

/// Opens a regular file in a folder that other users may have filled. Pipes (which could block the program forever),
/// devices and links are refused without waiting for them.
///
/// # Errors
/// If it can't be opened, or is not a regular file.
pub(crate) fn regular(path: &Path) -> io::Result<File> {
    if std::fs::symlink_metadata(path)?.is_symlink() {
        return Err(io::Error::other("it is a symbolic link; give a regular file"));
    }
    open_regular(path, OFlags::NOFOLLOW)
}

/// Opens a regular file, or a link to one, without waiting for a pipe's writer.
fn open_regular(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | flags).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Reads the copy of the genesis file in a data folder.
///
/// # Errors
/// If it can't be read, is not a regular file, or is too large.
pub(crate) fn kept_genesis(path: &Path) -> io::Result<Vec<u8>> {
    read_from(open_regular(path, OFlags::empty())?, GENESIS)
}

/// Reads a genesis file that the operator names; it may be a pipe.
///
/// # Errors
/// If it can't be read, or is too large.
pub(crate) fn genesis(path: &Path) -> io::Result<Vec<u8>> {
    read(path, GENESIS)
}

/// Reads another node's data about a block.
///
/// # Errors
/// If it can't be read, or is too large.
pub(crate) fn reference(path: &Path) -> io::Result<Vec<u8>> {
    read(path, REFERENCE)
}

/// Reads the words of a mnemonic.
///
/// # Errors
/// If it can't be read, is too large, or is not text.
pub(crate) fn mnemonic(path: &Path) -> io::Result<Mnemonic> {
    let bytes = Zeroizing::new(read(path, MNEMONIC)?);
    let text = std::str::from_utf8(&bytes).map_err(|_| io::Error::other("it is not UTF-8 text"))?;
    Ok(Mnemonic::new(text.trim()))
}

/// Reads passwords or a key, without leaving a copy in memory.
///
/// # Errors
/// If it can't be read, is larger than a megabyte, or is not text.
pub(crate) fn secret_text(path: &Path) -> io::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::with_capacity(SECRET as usize + 1));
    File::open(path)?.take(SECRET + 1).read_to_string(&mut text)?;
    if text.len() as u64 > SECRET {
        return Err(too_large(SECRET));
    }
    Ok(text)
}

fn too_large(max: u64) -> io::Error {
    io::Error::other(format!("the file is larger than the limit of {max} bytes"))
}

fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    read_from(File::open(path)?, max)
}

fn read_from(file: File, max: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.take(max + 1).read_to_end(&mut content)?;
    if content.len() as u64 > max {
        return Err(too_large(max));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endless_file_is_refused_and_one_at_the_limit_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, b"four").unwrap();

        assert_eq!(read(&file, 4).unwrap(), b"four");
        assert!(read(&file, 3).unwrap_err().to_string().contains("larger than the limit of 3 bytes"));
        assert!(read(Path::new("/dev/zero"), 1 << 20).is_err());
    }
}
