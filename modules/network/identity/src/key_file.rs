//! The file with the node key: 64 hexadecimal digits, readable only by its owner (`docs/spec/p2p.md` 3).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use alloy_primitives::hex;
use tenon_file_access::{FileExposure, check_secret};
use zeroize::Zeroizing;

use crate::{KeyError, NodeKey};

/// More bytes than a key file can have: digits, `0x`, and white space around them.
const MAX_FILE_BYTES: u64 = 256;

/// Why the node key cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum NodeKeyError {
    /// The file cannot be read or written.
    #[error("node key {}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        cause: io::Error,
    },
    /// Other users can read or change the file.
    #[error("node key {}: {access}", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Who has access.
        access: FileExposure,
    },
    /// The file contains no key.
    #[error("node key {}: {cause}; remove the file to get a new key", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: Box<NodeKeyError>,
    },
    /// The file's content is not 64 hexadecimal digits.
    #[error("a node key has 64 hexadecimal digits")]
    Text,
    /// The number is not a valid key.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Reads a key from 64 hexadecimal digits, with or without `0x`, and white space around them.
///
/// # Errors
/// [`NodeKeyError::Text`] and [`NodeKeyError::Key`]; neither contains any part of the text.
pub fn parse_key(text: &str) -> Result<NodeKey, NodeKeyError> {
    let digits = text.trim();
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    let mut secret = Zeroizing::new([0; 32]);
    if digits.len() != 64 || hex::decode_to_slice(digits, secret.as_mut_slice()).is_err() {
        return Err(NodeKeyError::Text);
    }
    Ok(NodeKey::from_secret(secret)?)
}

/// Reads the key file, or generates a key and writes it (mode 0600) if there is no file.
///
/// # Errors
/// [`NodeKeyError`]. An existing file is never changed.
pub fn load_or_create(path: &Path) -> Result<NodeKey, NodeKeyError> {
    // Before it is opened: opening a pipe waits for its writer.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(NodeKeyError::Io { path: path.to_owned(), cause: io::Error::other("it is not a regular file") });
    }
    match File::open(path) {
        Ok(file) => load(path, &file),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => create(path),
        Err(cause) => Err(NodeKeyError::Io { path: path.to_owned(), cause }),
    }
}

fn load(path: &Path, file: &File) -> Result<NodeKey, NodeKeyError> {
    let failed = |cause| NodeKeyError::Io { path: path.to_owned(), cause };
    let metadata = file.metadata().map_err(failed)?;
    check_secret(&metadata).map_err(|access| NodeKeyError::Exposed { path: path.to_owned(), access })?;
    let mut text = Zeroizing::new(String::with_capacity(MAX_FILE_BYTES as usize));
    file.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(failed)?;
    parse_key(&text).map_err(|cause| NodeKeyError::Content { path: path.to_owned(), cause: Box::new(cause) })
}

fn create(path: &Path) -> Result<NodeKey, NodeKeyError> {
    let key = NodeKey::random()?;
    let written = || -> io::Result<()> {
        let mut file = private_options().open(path)?;
        file.write_all(key.reveal().as_bytes())?;
        file.sync_all()
    };
    match written() {
        Ok(()) => Ok(key),
        // Another process created the file first: its key is used.
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {
            let file = File::open(path).map_err(|cause| NodeKeyError::Io { path: path.to_owned(), cause })?;
            load(path, &file)
        }
        Err(cause) => Err(NodeKeyError::Io { path: path.to_owned(), cause }),
    }
}

#[cfg(unix)]
fn private_options() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_missing_file_is_created_for_its_owner_only_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nodekey");

        let made = load_or_create(&path).unwrap();

        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&path).unwrap().len(), 64);
        assert_eq!(load_or_create(&path).unwrap().id(), made.id());
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_and_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nodekey");
        load_or_create(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let before = fs::read(&path).unwrap();

        let refused = load_or_create(&path);
        assert!(matches!(refused, Err(NodeKeyError::Exposed { access: FileExposure::Readable { mode: 0o640 }, .. })));
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    #[test]
    fn a_file_of_another_user_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nodekey");
        load_or_create(&path).unwrap();
        if std::os::unix::fs::chown(&path, Some(1_001), None).is_err() {
            // Only root can give a file away.
            return;
        }

        let refused = load_or_create(&path);

        assert!(matches!(refused, Err(NodeKeyError::Exposed { access: FileExposure::Foreign { owner: 1_001 }, .. })));
    }

    #[test]
    fn a_text_that_is_not_a_key_is_refused_without_being_shown() {
        let good = "b71c71a67e1177ad4e901695e1b4b9ee17ae16c6668d313eac2f96dbcda3f291";
        assert!(parse_key(&format!("0x{good}\n")).is_ok());
        for text in ["", "0x", &good[1..], &format!("{good}00"), &good.replace('b', "g"), &"0".repeat(64)] {
            let error = parse_key(text).err().unwrap().to_string();
            assert!(!error.contains("c71a67"), "{error}");
        }
    }
}
