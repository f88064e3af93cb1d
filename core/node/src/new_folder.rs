//! Removes the new data folder of a refused start.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::data_folder::refusal;
use crate::exit::Stop;

/// The folders that a start has created for a data folder's path. Removed on drop unless [`NewFolder::keep`] was
/// called.
///
/// Must be dropped after everything that has files of the folder open.
#[derive(Debug)]
pub(crate) struct NewFolder {
    /// The folder itself, if it was created.
    made: Option<PathBuf>,
    /// Parent folders that were created, outermost first.
    around: Vec<PathBuf>,
    /// An existing folder that was empty.
    was_empty: Option<PathBuf>,
}

impl NewFolder {
    /// Creates a folder, for its owner only, with its parents.
    ///
    /// # Errors
    /// [`Stop::DataFolder`] if it can't be created; folders created until then are removed.
    pub(crate) fn make(path: &Path) -> Result<Self, Stop> {
        let mut folder = Self { made: None, around: Vec::new(), was_empty: None };
        // The parent of a relative path's first part is the empty path.
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
        if missing.is_empty() && is_empty(path) {
            folder.was_empty = Some(path.to_owned());
        }
        for missing in missing.into_iter().rev() {
            match fs::DirBuilder::new().mode(0o700).create(missing) {
                Ok(()) if missing == path => folder.made = Some(path.to_owned()),
                Ok(()) => folder.around.push(missing.to_owned()),
                // Another process was faster; the folder belongs to it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(refusal(missing, &error)),
            }
        }
        Ok(folder)
    }

    /// Keeps the folder: the start has succeeded, or the folder is in use by another node.
    pub(crate) fn keep(&mut self) {
        self.made = None;
        self.around.clear();
        self.was_empty = None;
    }
}

fn is_empty(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

fn remove_content(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    Ok(())
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        let note = |path: &Path, outcome: io::Result<()>| {
            if let Err(error) = outcome {
                tracing::warn!(path = %path.display(), %error, "could not remove a folder created by a refused start");
            }
        };
        if let Some(path) = &self.was_empty {
            note(path, remove_content(path));
        }
        if let Some(path) = &self.made {
            note(path, fs::remove_dir_all(path));
        }
        for path in self.around.iter().rev() {
            // A folder that now has other content stays.
            let _ = fs::remove_dir(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_only_its_own_folders() {
        let parent = tempfile::tempdir().unwrap();
        let there = parent.path().join("there");
        fs::create_dir(&there).unwrap();
        fs::write(there.join("file"), "x").unwrap();
        let wanted = there.join("a/b");

        let made = NewFolder::make(&wanted).unwrap();
        fs::write(wanted.join("genesis.json"), "{}").unwrap();
        drop(made);

        assert!(!there.join("a").exists() && there.join("file").exists());
    }

    #[test]
    fn empties_a_folder_that_was_empty_and_keeps_the_files_of_another() {
        let (empty, full) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(full.path().join("file"), "x").unwrap();

        for folder in [&empty, &full] {
            let made = NewFolder::make(folder.path()).unwrap();
            fs::create_dir(folder.path().join("db")).unwrap();
            drop(made);
        }

        assert!(is_empty(empty.path()) && full.path().join("file").exists() && full.path().join("db").exists());
    }

    #[test]
    fn keeps_the_folders_of_a_successful_start() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");

        let mut made = NewFolder::make(&path).unwrap();
        made.keep();
        drop(made);

        assert!(path.is_dir());
    }
}
