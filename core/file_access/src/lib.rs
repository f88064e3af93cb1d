//! Checks whether users other than root and the user of this process could read or change a file: a key, a password, a policy.
//!
//! It owns the rule and its texts. The crate that reads the file decides whether an exposed one is refused.
//!
//! Invariants: a file's owner counts as much as its mode, because the owner can change the mode; the crate must never
//! change a file, or know what it contains.

#![forbid(unsafe_code)]

use std::{fs::Metadata, os::unix::fs::MetadataExt as _};

/// Who besides root and the user of this process has access to a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileExposure {
    /// Its mode lets other users read or change it.
    #[error("others can read it (mode {mode:03o}): run chmod 600 on it")]
    Readable {
        /// Its permission bits.
        mode: u32,
    },
    /// Its mode lets others change it.
    #[error("others can change it: run chmod go-w on it")]
    Writable,
    /// It is a folder like `/tmp`, where every user creates files.
    #[error("every user can create files in it: choose a folder of your own")]
    Shared,
    /// It belongs to another user.
    #[error(
        "it belongs to another user (id {owner}), who can change it: chown it to the user of this process, or to root"
    )]
    Foreign {
        /// The user's id.
        owner: u32,
    },
}

/// Checks a file that others must not even read.
///
/// # Errors
/// [`FileExposure`].
pub fn check_secret(metadata: &Metadata) -> Result<(), FileExposure> {
    match metadata.mode() & 0o777 {
        mode if mode & 0o077 != 0 => Err(FileExposure::Readable { mode }),
        _ => check_owner(metadata.uid(), own_user()),
    }
}

/// Checks a file or folder that others may read, but not change.
///
/// # Errors
/// [`FileExposure`].
pub fn check_unchangeable(metadata: &Metadata) -> Result<(), FileExposure> {
    match metadata.mode() & 0o1022 {
        0 | 0o1000 => check_owner(metadata.uid(), own_user()),
        mode if mode & 0o1000 != 0 => Err(FileExposure::Shared),
        _ => Err(FileExposure::Writable),
    }
}

/// Checks a file that the group may change: with umask 002, new files are group-writable. A process of root accepts every
/// owner, because files of a host's user that are mounted into a container keep that user.
///
/// # Errors
/// [`FileExposure`].
pub fn check_unchangeable_except_by_group(metadata: &Metadata) -> Result<(), FileExposure> {
    match metadata.mode() & 0o002 {
        0 if own_user() == 0 => Ok(()),
        0 => check_owner(metadata.uid(), own_user()),
        _ => Err(FileExposure::Writable),
    }
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

const fn check_owner(owner: u32, own: u32) -> Result<(), FileExposure> {
    if owner == 0 || owner == own { Ok(()) } else { Err(FileExposure::Foreign { owner }) }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_root_and_the_own_user_may_own_a_file() {
        assert_eq!(check_owner(1_000, 1_000), Ok(()));
        assert_eq!(check_owner(0, 1_000), Ok(()));
        assert_eq!(check_owner(0, 0), Ok(()));
        for own in [1_000, 0] {
            assert_eq!(check_owner(1_001, own), Err(FileExposure::Foreign { owner: 1_001 }));
        }
    }

    #[test]
    fn the_mode_of_a_secret_denies_reading_and_that_of_others_changing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        fs::write(&file, "").unwrap();
        let readable = |mode| Err(FileExposure::Readable { mode });
        for (mode, secret, unchangeable) in [
            (0o600, Ok(()), Ok(())),
            (0o400, Ok(()), Ok(())),
            (0o640, readable(0o640), Ok(())),
            (0o604, readable(0o604), Ok(())),
            (0o620, readable(0o620), Err(FileExposure::Writable)),
            (0o664, readable(0o664), Err(FileExposure::Writable)),
            (0o666, readable(0o666), Err(FileExposure::Writable)),
        ] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            let metadata = fs::metadata(&file).unwrap();
            assert_eq!((check_secret(&metadata), check_unchangeable(&metadata)), (secret, unchangeable), "{mode:o}");
            let is_open_to_all = mode & 0o002 != 0;
            assert_eq!(check_unchangeable_except_by_group(&metadata).is_err(), is_open_to_all, "{mode:o}");
        }
    }
}
