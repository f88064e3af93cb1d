//! Checks who can change a file. Write access to the settings, the policy or the log is equivalent to deciding what is
//! signed.

use std::path::{Path, PathBuf};

use tenon_file_access::check_unchangeable;

/// A file or folder that others can change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExposedPath {
    /// The file or folder.
    pub path: PathBuf,
    /// Who has access.
    pub access: tenon_file_access::FileExposure,
}

/// Checks that only root and the service's own user can change a file. A missing file passes, because the code that
/// reads it reports that it is missing.
///
/// # Errors
/// [`ExposedPath`].
pub fn check(path: &Path) -> Result<(), ExposedPath> {
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(()) };
    check_unchangeable(&metadata).map_err(|access| ExposedPath { path: path.to_owned(), access })
}

/// Like [`check`], for a file and its folder. Write access to the folder allows replacing the file.
///
/// # Errors
/// [`ExposedPath`].
pub fn check_with_folder(path: &Path) -> Result<(), ExposedPath> {
    check(path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    check(folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

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
