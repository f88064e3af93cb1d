//! The copies from which libraries are loaded, in a folder that only this node writes.
//!
//! Invariants:
//!
//! - A copy's name contains the hash of its content.
//! - A copy is written to a temporary file, then renamed, and never written again. Writing to the file of a loaded
//!   library can end the process (SIGBUS), and for a path that is already loaded the system's loader returns the old
//!   library.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::{
    HostError, PluginFolder,
    library_file::{FileStamp, NoCallbacks, OpenedLibrary, Ownership, PIECE, Steps, check_owner, open_without_waiting},
};

/// A library whose bytes were checked, with the copy that only this node writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedLibrary {
    /// The given file.
    pub path: PathBuf,
    /// The copy to load. Its name contains the hash.
    pub copy: PathBuf,
    /// SHA-256 of the bytes, hex.
    pub hash: String,
}

/// The folder with the copies.
#[derive(Debug)]
pub struct LibraryCache {
    folder: PathBuf,
    /// Copies whose content was compared with their name, and their file metadata at that time. Used by operations;
    /// nothing awaits under the lock.
    known: Mutex<BTreeMap<PathBuf, FileStamp>>,
    /// Copies that this process has mapped, permanently. They are not deleted: a mapped file keeps its disk space
    /// anyway, and a build that is loaded again would have to be written again.
    mapped: Mutex<BTreeSet<PathBuf>>,
}

impl LibraryCache {
    /// The copies in this folder, which is created with the first of them.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, known: Mutex::default(), mapped: Mutex::default() }
    }

    /// Checks a library and copies it, unless its copy exists. It must lie directly in one of `folders`, if any are
    /// given. Blocks.
    ///
    /// # Errors
    /// [`HostError`] naming the problem with the file. Nothing has been loaded then.
    pub fn check_and_copy(&self, path: &Path, folders: Option<&[PluginFolder]>) -> Result<CheckedLibrary, HostError> {
        self.check_and_copy_with(path, folders, &NoCallbacks)
    }

    /// As [`LibraryCache::check_and_copy`], with a callback between the steps.
    pub fn check_and_copy_with(
        &self,
        path: &Path,
        folders: Option<&[PluginFolder]>,
        steps: &impl Steps,
    ) -> Result<CheckedLibrary, HostError> {
        let library = OpenedLibrary::open(path, folders, steps)?;
        steps.checked();
        let folder = self.own_folder()?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let path_of = |hash: &str| folder.join(format!("{stem}-{hash}.so"));
        // A build whose copy exists is only read, because writing megabytes would slow callers down.
        if self.may_hold(&library) {
            let hash = library.read(steps, |_| Ok(()))?;
            let copy = path_of(&hash);
            if self.holds(&copy, &hash, steps) {
                return Ok(CheckedLibrary { path: path.to_owned(), copy, hash });
            }
        }
        // Written to a temporary file and renamed, so that no other process sees a partial file under the final name. A
        // power loss can leave one there; its content is compared before use.
        let unfinished = folder.join(format!("{stem}.{}.new", std::process::id()));
        let taken = self.copy(&library, &unfinished, path_of, steps);
        if taken.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        let (copy, hash) = taken?;
        Ok(CheckedLibrary { path: path.to_owned(), copy, hash })
    }

    /// The folder, created if missing, writable by its owner only.
    fn own_folder(&self) -> Result<PathBuf, HostError> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        made.map_err(failed(&self.folder, "cannot create the folder for loaded libraries"))?;
        let folder = self.folder.canonicalize().map_err(failed(&self.folder, "cannot find the folder"))?;
        let metadata = fs::metadata(&folder).map_err(failed(&folder, "cannot inspect the folder"))?;
        check_owner(Ownership::of(&metadata), "the folder for loaded libraries")
            .map_err(|reason| HostError::Untrusted { path: folder.clone(), reason })?;
        Ok(folder)
    }

    /// Whether one of the copies could be of this library, by its length.
    fn may_hold(&self, library: &OpenedLibrary) -> bool {
        self.known.lock().values().any(|moment| moment.length() == library.length())
    }

    /// Records that this process has mapped a copy.
    pub fn note_mapped(&self, copy: &Path) {
        self.mapped.lock().insert(copy.to_owned());
    }

    /// Whether a copy exists and its content matches its name. One that was checked before and has not changed since is
    /// not read again.
    fn holds(&self, copy: &Path, hash: &str, steps: &impl Steps) -> bool {
        let Ok(mut file) = open_without_waiting(copy) else { return false };
        let Ok(metadata) = file.metadata() else { return false };
        let moment = FileStamp::of(&metadata);
        if self.known.lock().get(copy) == Some(&moment) {
            return true;
        }
        let is_held = metadata.is_file() && hash_of(&mut file, steps).is_ok_and(|found| found == hash);
        if is_held {
            self.known.lock().insert(copy.to_owned(), moment);
        }
        is_held
    }

    /// Copies a checked library to the path given by its hash, unless that exists.
    fn copy(
        &self,
        library: &OpenedLibrary,
        unfinished: &Path,
        path_of: impl FnOnce(&str) -> PathBuf,
        steps: &impl Steps,
    ) -> Result<(PathBuf, String), HostError> {
        let cannot = || failed(unfinished, "cannot copy the library");
        let _ = fs::remove_file(unfinished);
        let created = fs::OpenOptions::new().write(true).create_new(true).mode(0o700).open(unfinished);
        let mut file = created.map_err(cannot())?;
        let hash = library.read(steps, |piece| file.write_all(piece).map_err(cannot()))?;
        let copy = path_of(&hash);
        if self.holds(&copy, &hash, steps) {
            fs::remove_file(unfinished).map_err(cannot())?;
            return Ok((copy, hash));
        }
        fs::rename(unfinished, &copy).map_err(cannot())?;
        let metadata = file.metadata().map_err(cannot())?;
        self.known.lock().insert(copy.clone(), FileStamp::of(&metadata));
        Ok((copy, hash))
    }

    /// Whether a known copy is neither in `used` nor mapped by this process.
    pub fn has_unused(&self, used: &[PathBuf]) -> bool {
        let mapped = self.mapped.lock();
        self.known.lock().keys().any(|copy| !used.contains(copy) && !mapped.contains(copy))
    }

    /// Removes unused copies, because the folder would otherwise grow with every build of a plugin in its own process.
    /// A copy that this process has mapped stays until the next process of the node removes it. Blocks.
    pub fn remove_unused(&self, used: &[PathBuf]) {
        let mapped = self.mapped.lock().clone();
        let is_used = |copy: &PathBuf| used.contains(copy) || mapped.contains(copy);
        self.known.lock().retain(|copy, _| is_used(copy));
        // A copy that cannot be removed does no harm.
        let Ok(folder) = self.folder.canonicalize() else { return };
        let Ok(entries) = fs::read_dir(&folder) else { return };
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| !is_used(path)) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let hash = name.strip_suffix(".so").and_then(|stem| stem.rsplit_once('-')).map(|(_, hash)| hash);
            let is_copy =
                hash.is_some_and(|hash| hash.len() == 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()));
            // Left by a node that was killed.
            let process = name.strip_suffix(".new").and_then(|stem| stem.rsplit_once('.')).map(|(_, process)| process);
            let is_half = process.is_some_and(|process| process.bytes().all(|digit| digit.is_ascii_digit()));
            if is_copy || is_half {
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn hash_of(file: &mut File, steps: &impl Steps) -> io::Result<String> {
    let (mut digest, mut piece) = (Sha256::new(), vec![0; PIECE]);
    loop {
        let count = file.read(&mut piece)?;
        match piece.get(..count) {
            Some([]) | None => return Ok(hex::encode(digest.finalize())),
            Some(read) => digest.update(read),
        }
        steps.piece();
    }
}

fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> HostError {
    let path = path.to_owned();
    move |reason| HostError::File { path, action, reason }
}

#[cfg(test)]
mod tests;
