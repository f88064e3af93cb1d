use std::{io, path::PathBuf};

use alloy_primitives::{Address, hex};

/// The most letters of a file's own words that an error repeats.
const SHOWN_LETTERS: usize = 32;

/// Why a key file can't be read or opened. No variant carries a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// The file is longer than any key file is.
    #[error("a key file has {allowed} bytes at most")]
    TooLong {
        /// The bound, in bytes.
        allowed: usize,
    },
    /// The file is not JSON, or no object.
    #[error("the key file is not JSON: line {line}, column {column}")]
    NotJson {
        /// Where, from 1.
        line: usize,
        /// Where, from 1.
        column: usize,
    },
    /// A member is missing or not of its type.
    #[error("invalid key file: {name} {problem}")]
    Field {
        /// The member.
        name: &'static str,
        /// What is wrong with it.
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
    /// Opening the file takes more memory than is allowed.
    #[error("opening this key file takes {wanted} MiB; `accounts.memory` allows {allowed}")]
    TooMuchMemory {
        /// What it asks for, in MiB.
        wanted: u64,
        /// The bound, in MiB.
        allowed: u64,
    },
    /// Opening the file takes more computing time than is allowed.
    #[error("opening this key file takes too long: make it anew with the standard cost")]
    TooMuchWork,
    /// The password is wrong, or the file is damaged.
    #[error("could not decrypt key with given password")]
    WrongPassword,
    /// What was decrypted is no secret key.
    #[error("invalid key: the decrypted number is zero or not below the order of the curve")]
    InvalidKey,
    /// The key belongs to another address than the file states.
    #[error("key content mismatch: have account {}, want {}", hex::encode(have), hex::encode(want))]
    OtherAccount {
        /// The key's own address.
        have: Address,
        /// The address that the file states.
        want: Address,
    },
}

impl KeyFileError {
    /// What is shown of a file's own words: their beginning, without control letters.
    pub(super) fn shown(words: &str) -> String {
        words.chars().filter(|letter| !letter.is_control()).take(SHOWN_LETTERS).collect()
    }
}

/// Why a key could not be kept in the folder or taken from it.
#[derive(Debug, thiserror::Error)]
pub enum KeyFolderError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    System {
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The file is no key file, or does not open.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: KeyFileError,
    },
    /// A new file did not open again after it was written. It was removed.
    #[error(
        "an error was encountered when saving and verifying the keystore file. The file {} was removed; no key was \
         saved: {source}",
        path.display()
    )]
    NotVerified {
        /// Where it had been.
        path: PathBuf,
        /// Why it did not open.
        source: KeyFileError,
    },
    /// The key could not be encrypted.
    #[error(transparent)]
    NotEncrypted(#[from] KeyFileError),
    /// The folder has a file of this name already.
    #[error("{}: the file exists already", .0.display())]
    Exists(PathBuf),
    /// The system gave no random bytes.
    #[error("the operating system gave no random bytes")]
    NoRandomness,
}

impl KeyFolderError {
    pub(super) fn system(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::System { path, source }
    }
}
