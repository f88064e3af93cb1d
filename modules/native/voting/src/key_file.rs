//! The file with a masternode's key: 64 hexadecimal digits, accessible only to its owner.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use tenon_file_access::{FileExposure, check_secret};
use tenon_native_consensus::v2::MasternodeKey;
use zeroize::Zeroizing;

/// Maximum size of the file in bytes: the digits, a prefix and white space.
const MAX_BYTES: u64 = 128;

/// Why a key cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MasternodeKeyError {
    /// The file cannot be read.
    #[error("key file {}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        cause: std::io::Error,
    },
    /// Other users can read or change the file.
    #[error("key file {}: {access}", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Who has access.
        access: FileExposure,
    },
    /// The content is not a key.
    #[error("key file {}: not 64 hexadecimal digits of a private key", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
    },
}

/// Reads a key.
///
/// # Errors
/// [`MasternodeKeyError`]. It never contains any part of the file's content.
pub fn read_key(path: &Path) -> Result<MasternodeKey, MasternodeKeyError> {
    let unreadable = |cause| MasternodeKeyError::Unreadable { path: path.to_owned(), cause };
    let malformed = || MasternodeKeyError::Malformed { path: path.to_owned() };
    // Before it is opened: opening a pipe waits for its writer.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(malformed());
    }
    let file = fs::File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    check_secret(&metadata).map_err(|access| MasternodeKeyError::Exposed { path: path.to_owned(), access })?;
    if metadata.len() > MAX_BYTES {
        return Err(malformed());
    }
    let mut text = Zeroizing::new(String::with_capacity(MAX_BYTES as usize));
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(unreadable)?;
    let digits = text.trim();
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    let mut bytes = Zeroizing::new([0; 32]);
    alloy_primitives::hex::decode_to_slice(digits, bytes.as_mut_slice()).map_err(|_| malformed())?;
    MasternodeKey::from_bytes(*bytes).ok_or_else(malformed)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_read_only_from_a_file_that_others_cannot_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let digits = "07".repeat(32);
        for text in [digits.clone(), format!("0x{digits}\n")] {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            let key = read_key(&path).unwrap();
            assert_eq!(key.address(), MasternodeKey::from_bytes([7; 32]).unwrap().address());
        }
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(
            read_key(&path),
            Err(MasternodeKeyError::Exposed { access: FileExposure::Readable { mode: 0o640 }, .. })
        ));
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        for text in ["", "07", &"00".repeat(32), &"0g".repeat(32), &"07".repeat(100)] {
            fs::write(&path, text).unwrap();
            let error = read_key(&path).unwrap_err();
            assert!(matches!(error, MasternodeKeyError::Malformed { .. }), "{error}");
        }
        assert!(matches!(read_key(folder.path()), Err(MasternodeKeyError::Malformed { .. })));
        assert!(matches!(read_key(&folder.path().join("none")), Err(MasternodeKeyError::Unreadable { .. })));
    }
}
