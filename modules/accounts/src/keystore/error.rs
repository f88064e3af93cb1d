//! Errors of the folder of key files.

use std::{io, path::PathBuf};

use tenon_api::{AccountRefusal, KeyFileProblem};

/// Why a key could not be stored in the folder or read from it.
#[derive(Debug, thiserror::Error)]
pub enum KeyFolderError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    System {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not a key file, or cannot be opened.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: KeyFileProblem,
    },
    /// A new file could not be opened again after it was written. It was removed.
    #[error("the new key file {} cannot be opened and was removed: {source}", path.display())]
    NotVerified {
        /// Its path.
        path: PathBuf,
        /// Why it could not be opened.
        source: KeyFileProblem,
    },
    /// The key could not be encrypted.
    #[error(transparent)]
    NotEncrypted(#[from] KeyFileProblem),
    /// The folder already has a file with this name.
    #[error("{}: the file already exists", .0.display())]
    Exists(PathBuf),
    /// The system returned no random bytes.
    #[error("the operating system returned no random bytes")]
    NoRandomness,
}

impl KeyFolderError {
    /// The refusal whose text clients know.
    ///
    /// # Errors
    /// This error if it is not about the content of a key file.
    pub fn into_refusal(self) -> Result<AccountRefusal, Self> {
        match self {
            Self::File { path, source } => Ok(AccountRefusal::KeyFile { path: Some(path), problem: source }),
            Self::NotEncrypted(problem) => Ok(AccountRefusal::KeyFile { path: None, problem }),
            Self::NotVerified { path, source } => Ok(AccountRefusal::KeyNotSaved { path, problem: source }),
            error @ (Self::System { .. } | Self::Exists(_) | Self::NoRandomness) => Err(error),
        }
    }

    pub(super) fn system(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::System { path, source }
    }
}
