//! The form of a snapshot, by its name.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::exit::Stop;
use crate::synced_files::failed;

/// Suffixes of the names of snapshots in one file.
const ARCHIVE_NAMES: [&str; 2] = [".tar.gz", ".tgz"];

/// Suffixes of the names of other archives and compressed files, which would be surprising names of folders.
const OTHER_NAMES: [&str; 22] = [
    ".tar", ".gz", ".z", ".taz", ".bz2", ".tbz", ".tbz2", ".tb2", ".xz", ".txz", ".lz", ".lzma", ".tlz", ".lz4",
    ".lzo", ".br", ".zst", ".zstd", ".tzst", ".zip", ".7z", ".rar",
];

/// Whether a path is that of a snapshot in one file.
pub(super) fn is_archive(path: &Path) -> bool {
    path.to_str().is_some_and(|name| ARCHIVE_NAMES.iter().any(|end| name.ends_with(end)))
}

/// Refuses a name that looks like an archive of a kind that is not written: the new snapshot would become a folder of
/// that name.
///
/// # Errors
/// [`Stop::Usage`] with the accepted names.
pub(crate) fn check_new(target: &Path) -> Result<(), Stop> {
    // Without a slash at its end.
    let name = target.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let looks_like_an_archive = ARCHIVE_NAMES.iter().chain(&OTHER_NAMES).any(|end| name.ends_with(end));
    if is_archive(target) || !looks_like_an_archive {
        return Ok(());
    }
    Err(Stop::Usage(format!(
        "{}: a snapshot in one file is written with gzip only; give a name that ends in {}, or the name of a folder",
        target.display(),
        ARCHIVE_NAMES.join(" or ")
    )))
}

/// The form of an existing snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Folder,
    File,
}

impl Form {
    /// # Errors
    /// [`Stop::Usage`] if nothing exists there, and for a file whose name is not that of a snapshot.
    pub(super) fn of(source: &Path) -> Result<Self, Stop> {
        let shown = source.display();
        match fs::metadata(source) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Err(Stop::Usage(format!("{shown}: no such snapshot")))
            }
            Err(error) => Err(failed(source)(error)),
            Ok(found) if found.is_dir() => Ok(Self::Folder),
            Ok(_) if is_archive(source) => Ok(Self::File),
            Ok(_) => Err(Stop::Usage(format!(
                "{shown} is not a snapshot: one in a file has a name that ends in {}",
                ARCHIVE_NAMES.join(" or ")
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_name_of_another_kind_of_archive_is_refused() {
        for name in ["x", "x.d", "monday.tar.gz", "a/monday.tgz", "2026-11-26", "tar", "chain.tar.gz.d", "/"] {
            assert!(check_new(Path::new(name)).is_ok(), "{name}");
        }
        for name in ["x.tar", "x.tar.zst", "x.gz", "a/x.TAR.GZ", "x.tar/", "x.tar.gz/", "x.tar.bz2", "x.zip", ".tar"] {
            let Err(Stop::Usage(text)) = check_new(Path::new(name)) else { panic!("{name}") };
            assert!(text.starts_with(name) && text.contains("ends in .tar.gz or .tgz"), "{text}");
        }
    }

    #[test]
    fn a_folder_is_a_snapshot_under_any_name_and_a_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (named, file, other) =
            (folder.path().join("a.tar"), folder.path().join("b.tgz"), folder.path().join("c.tar"));
        std::fs::create_dir(&named).unwrap();
        std::fs::write(&file, "").unwrap();
        std::fs::write(&other, "").unwrap();

        assert_eq!(Form::of(&named).unwrap(), Form::Folder);
        assert_eq!(Form::of(&file).unwrap(), Form::File);
        assert!(matches!(Form::of(&other), Err(Stop::Usage(text)) if text.contains("ends in .tar.gz or .tgz")));
        let missing = Form::of(&folder.path().join("missing"));
        assert!(matches!(missing, Err(Stop::Usage(text)) if text.ends_with("missing: no such snapshot")));
    }
}
