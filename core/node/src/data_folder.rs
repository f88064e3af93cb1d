//! The data folder: what lies where, and how files in it are written.
//!
//! `db/` is the database, `genesis.json` a copy of the genesis that it began with, `endpoints.json` where a running
//! node listens, `tenon.ipc` its socket, `tenon.toml` the operator's settings.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempDir};

use crate::exit::Stop;

/// A data folder; an ephemeral one is removed when this value goes.
#[derive(Debug)]
pub(crate) struct DataFolder {
    path: PathBuf,
    ephemeral: Option<TempDir>,
}

impl DataFolder {
    /// Uses a folder, and makes it, for its owner only, when there is none.
    ///
    /// # Errors
    /// [`Stop::DataFolder`] when it can't be made.
    pub(crate) fn create(path: &Path) -> Result<Self, Stop> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| refusal(path, &error))?;
        Ok(Self { path: path.to_owned(), ephemeral: None })
    }

    /// Uses a folder that holds a chain.
    ///
    /// # Errors
    /// [`Stop::DataFolder`] when there is none.
    pub(crate) fn existing(path: &Path) -> Result<Self, Stop> {
        let folder = Self { path: path.to_owned(), ephemeral: None };
        if folder.database().is_dir() {
            return Ok(folder);
        }
        Err(Stop::DataFolder(format!(
            "{} holds no chain; name the folder with --datadir, or fill it with `tenon import`",
            path.display()
        )))
    }

    /// A new folder under the system's temporary folder, removed with all that it holds when the value goes.
    ///
    /// # Errors
    /// [`Stop::DataFolder`] when it can't be made.
    pub(crate) fn ephemeral() -> Result<Self, Stop> {
        let parent = std::env::temp_dir();
        let folder =
            tempfile::Builder::new().prefix("tenon-dev-").tempdir().map_err(|error| refusal(&parent, &error))?;
        Ok(Self { path: folder.path().to_owned(), ephemeral: Some(folder) })
    }

    /// Another handle of the same folder, which removes nothing when it goes.
    pub(crate) fn handle(&self) -> Self {
        Self { path: self.path.clone(), ephemeral: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is removed at the end.
    pub(crate) const fn is_ephemeral(&self) -> bool {
        self.ephemeral.is_some()
    }

    /// The database's folder.
    pub(crate) fn database(&self) -> PathBuf {
        self.path.join("db")
    }

    /// The copy of the genesis file; none before the first start.
    ///
    /// # Errors
    /// [`Stop::DataFolder`] when it is there and can't be read.
    pub(crate) fn genesis(&self) -> Result<Option<Vec<u8>>, Stop> {
        let path = self.path.join(GENESIS);
        match fs::read(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refusal(&path, &error)),
        }
    }

    /// Keeps the genesis for the next start.
    ///
    /// # Errors
    /// [`Stop::DataFolder`] when it can't be written.
    pub(crate) fn keep_genesis(&self, text: &[u8]) -> Result<(), Stop> {
        self.write(GENESIS, text)
    }

    /// Takes back what [`DataFolder::keep_genesis`] wrote.
    pub(crate) fn forget_genesis(&self) {
        self.remove(GENESIS);
    }

    /// Writes a file whole or not at all: readers see the old one or the new one.
    ///
    /// # Errors
    /// [`Stop::DataFolder`] when it can't be written.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Stop> {
        let path = self.path.join(name);
        let write = || -> io::Result<()> {
            let mut file = NamedTempFile::new_in(&self.path)?;
            file.write_all(bytes)?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(|error| refusal(&path, &error))
    }

    /// Removes a file if it is there.
    pub(crate) fn remove(&self, name: &str) {
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "file not removed");
            }
            _ => {}
        }
    }
}

const GENESIS: &str = "genesis.json";

fn refusal(path: &Path, error: &io::Error) -> Stop {
    Stop::DataFolder(format!("{}: {error}; choose another folder with --datadir", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_a_genesis_and_gives_it_back() {
        let parent = tempfile::tempdir().unwrap();
        let folder = DataFolder::create(&parent.path().join("a/b")).unwrap();
        assert_eq!(folder.genesis().unwrap(), None);

        folder.keep_genesis(b"{}").unwrap();

        assert_eq!(folder.genesis().unwrap().as_deref(), Some(&b"{}"[..]));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn refuses_a_folder_without_a_chain_when_one_is_needed() {
        let parent = tempfile::tempdir().unwrap();
        let error = DataFolder::existing(parent.path()).unwrap_err().to_string();
        assert!(error.contains("holds no chain; name the folder with --datadir"), "{error}");
    }

    #[test]
    fn removes_an_ephemeral_folder_when_it_goes() {
        let folder = DataFolder::ephemeral().unwrap();
        let path = folder.path().to_owned();
        folder.write("x", b"y").unwrap();

        drop(folder);

        assert!(!path.exists());
    }
}
