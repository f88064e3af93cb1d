//! Checks who can change a file. Write access to the settings or the policy is equivalent to deciding what is signed.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// A file or folder that others can change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exposed {
    pub(crate) path: PathBuf,
    /// What is wrong with its mode or owner.
    pub(crate) reason: &'static str,
}

/// Checks that only root and the service's own user can change a file. A missing file passes, because the code that
/// reads it reports that it is missing.
///
/// # Errors
/// [`Exposed`].
pub(crate) fn check(path: &Path) -> Result<(), Exposed> {
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(()) };
    let own = rustix::process::geteuid().as_raw();
    problem(metadata.mode(), metadata.uid(), own)
        .map_or(Ok(()), |reason| Err(Exposed { path: path.to_owned(), reason }))
}

/// Like [`check`], for a file and its folder. Write access to the folder allows replacing the file.
///
/// # Errors
/// [`Exposed`].
pub(crate) fn check_with_folder(path: &Path) -> Result<(), Exposed> {
    check(path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    check(folder)
}

const fn problem(mode: u32, owner: u32, own: u32) -> Option<&'static str> {
    if mode & 0o022 != 0 {
        return Some("others can change it: run chmod go-w on it");
    }
    if owner != 0 && owner != own {
        return Some("it belongs to another user, who can change it: chown it to the user of the service, or to root");
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_root_and_the_services_user_may_own_deciding_files() {
        assert_eq!(problem(0o100644, 1_000, 1_000), None);
        assert_eq!(problem(0o100644, 0, 1_000), None);
        assert_eq!(problem(0o040755, 0, 0), None);
        for (mode, owner, own) in [(0o100644, 1_001, 1_000), (0o100600, 1_000, 0)] {
            assert!(problem(mode, owner, own).unwrap().contains("another user"));
        }
        for mode in [0o100664, 0o100646, 0o040775, 0o041777] {
            assert!(problem(mode, 0, 0).unwrap().contains("chmod go-w"), "{mode:o}");
        }
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("policy.toml");
        std::fs::write(&file, "").unwrap();
        let set = |path: &Path, mode: u32| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set(&file, 0o644);
        assert_eq!(check_with_folder(&file), Ok(()));
        set(folder.path(), 0o775);
        assert_eq!(check_with_folder(&file).unwrap_err().path, folder.path());
        set(folder.path(), 0o700);
        set(&file, 0o666);
        assert_eq!(check_with_folder(&file).unwrap_err().path, file);
        assert_eq!(check(&folder.path().join("none")), Ok(()));
    }
}
