//! Errors of key files and their folder.

use std::{io, path::PathBuf};

use alloy_primitives::{Address, hex};

/// Maximum number of characters that an error quotes from a file.
const SHOWN_LETTERS: usize = 32;

/// Why a key file cannot be read or opened. No variant contains a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// The file is longer than the maximum of a key file.
    #[error("a key file has at most {allowed} bytes")]
    TooLong {
        /// The limit, in bytes.
        allowed: usize,
    },
    /// The file is not JSON, or not an object.
    #[error("the key file is not JSON: line {line}, column {column}")]
    NotJson {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// A member is missing or has the wrong type.
    #[error("invalid key file: {name} {problem}")]
    Field {
        /// The member.
        name: &'static str,
        /// The problem.
        problem: &'static str,
    },
    /// A version other than 1 and 3.
    #[error("version not supported: {0}")]
    Version(String),
    /// A cipher other than `aes-128-ctr`.
    #[error("cipher not supported: {0}")]
    Cipher(String),
    /// A key derivation other than `scrypt` and `pbkdf2`.
    #[error("unsupported KDF: {0}")]
    Kdf(String),
    /// A pseudo-random function other than `hmac-sha256`.
    #[error("unsupported PBKDF2 PRF: {0}")]
    Prf(String),
    /// Opening the file needs more memory than is allowed.
    #[error("opening this key file takes {wanted} MiB, but `accounts.memory` allows {allowed}")]
    TooMuchMemory {
        /// Memory needed, in MiB.
        wanted: u64,
        /// The limit, in MiB.
        allowed: u64,
    },
    /// Opening the file needs more computing time than is allowed.
    #[error("opening this key file takes too long: create it again with the standard cost")]
    TooMuchWork,
    /// The password is wrong, or the file is damaged.
    #[error("could not decrypt key with given password")]
    WrongPassword,
    /// The decrypted bytes are not a valid secret key.
    #[error("invalid key: the decrypted number is zero or not below the order of the curve")]
    InvalidKey,
    /// The key's address differs from the one in the file.
    #[error("key content mismatch: have account {}, want {}", hex::encode(have), hex::encode(want))]
    OtherAccount {
        /// The key's own address.
        have: Address,
        /// The address in the file.
        want: Address,
    },
}

impl KeyFileError {
    /// The part of a file's text that errors show: its beginning, without control characters.
    pub(super) fn shown(words: &str) -> String {
        words.chars().filter(|letter| !letter.is_control()).take(SHOWN_LETTERS).collect()
    }
}

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
        source: KeyFileError,
    },
    /// A new file could not be opened again after it was written. It was removed.
    #[error(
        "an error was encountered when saving and verifying the keystore file. The file {} was removed; no key was \
         saved: {source}",
        path.display()
    )]
    NotVerified {
        /// Its path.
        path: PathBuf,
        /// Why it could not be opened.
        source: KeyFileError,
    },
    /// The key could not be encrypted.
    #[error(transparent)]
    NotEncrypted(#[from] KeyFileError),
    /// The folder already has a file with this name.
    #[error("{}: the file already exists", .0.display())]
    Exists(PathBuf),
    /// The system returned no random bytes.
    #[error("the operating system returned no random bytes")]
    NoRandomness,
}

impl KeyFolderError {
    pub(super) fn system(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::System { path, source }
    }
}
