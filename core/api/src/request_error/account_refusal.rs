//! Why a wallet or key refuses a request.

use std::path::{Path, PathBuf};

use alloy_primitives::{Address, U256};

use super::DeviceProblem;

/// Why a wallet or key refuses a request. No variant contains any part of a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountRefusal {
    /// This node has no key for the address.
    #[error("this node has no key for the address")]
    UnknownAccount,
    /// No key file of this node contains the address.
    #[error("no key file contains the address")]
    NoKeyFile,
    /// Several key files contain the address.
    #[error("several key files contain the address: {}", listed(.0))]
    SeveralKeyFiles(Vec<PathBuf>),
    /// The password is wrong, or the key file is damaged.
    #[error("the password is wrong, or the key file is damaged")]
    WrongPassword,
    /// A key file cannot be read or opened.
    #[error("{}{problem}", prefix(path.as_deref()))]
    KeyFile {
        /// The file; `None` if it was not written.
        path: Option<PathBuf>,
        /// The problem with it.
        problem: KeyFileProblem,
    },
    /// A new key file could not be opened again after it was written. It was removed.
    #[error("the new key file {} cannot be opened and was removed: {problem}", path.display())]
    KeyNotSaved {
        /// The file.
        path: PathBuf,
        /// The problem with it.
        problem: KeyFileProblem,
    },
    /// The account is locked, or the caller may not use its key.
    #[error("the account is locked, or the caller may not use its key")]
    Locked,
    /// Accounts are not unlocked over TCP without a token.
    #[error("accounts are not unlocked over TCP without a token")]
    UnlockForbidden,
    /// The duration exceeds the maximum.
    #[error("the duration exceeds the maximum of an unlock")]
    DurationTooLong,
    /// A key of this address already exists.
    #[error("a key of this address already exists")]
    Exists,
    /// The text is not a secret key.
    #[error(transparent)]
    KeyText(#[from] KeyTextProblem),
    /// There is no folder of key files.
    #[error("this node has no folder of key files")]
    NoKeystore,
    /// No wallet has this URL.
    #[error("no wallet has this URL")]
    UnknownWallet,
    /// The text is not a wallet URL.
    #[error("the text is not the URL of a wallet")]
    NoWalletUrl,
    /// The text is not a derivation path.
    #[error(transparent)]
    Path(#[from] PathProblem),
    /// The wallet does not have this feature.
    #[error("the wallet cannot {0}")]
    NotSupported(WalletFeature),
    /// A hardware wallet fails or refuses.
    #[error(transparent)]
    Device(#[from] DeviceProblem),
    /// The signature has the wrong length.
    #[error("the signature does not have 65 bytes")]
    SignatureLength,
    /// A signature whose last byte is neither 27 nor 28.
    #[error("the last byte of the signature is neither 27 nor 28")]
    SignatureParity,
    /// No signer can be recovered from the signature.
    #[error("no signer can be recovered from the signature")]
    NotRecovered,
    /// The transaction could cost more than the limit for signing.
    #[error("the gas of the transaction could cost {fee} wei, and the limit is {cap}")]
    FeeTooHigh {
        /// Its maximum cost, wei.
        fee: U256,
        /// The limit, wei.
        cap: U256,
    },
    /// The transaction has no gas limit.
    #[error("the transaction has no gas limit")]
    NoGas,
    /// The transaction has no nonce.
    #[error("the transaction has no nonce")]
    NoNonce,
    /// The transaction has no gas price, or only one of the two fee caps.
    #[error("the transaction has no gas price, or only one of the two fee caps")]
    NoPrice,
    /// The transaction has a gas price and fee caps.
    #[error("the transaction has a gas price and fee caps")]
    BothPrices,
    /// The transaction creates a contract and has authorizations.
    #[error("the transaction creates a contract and has authorizations")]
    CreationWithAuthorizations,
    /// The transaction has an empty list of authorizations.
    #[error("the list of authorizations is empty")]
    NoAuthorizations,
    /// The transaction's chain id is another chain's.
    #[error("the transaction is for chain {found}, and this is chain {wanted}")]
    WrongChain {
        /// Its chain id.
        found: u64,
        /// The node's.
        wanted: u64,
    },
}

/// The paths, separated by commas.
fn listed(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(", ")
}

/// The path and a colon, if there is a path.
fn prefix(path: Option<&Path>) -> String {
    path.map(|path| format!("{}: ", path.display())).unwrap_or_default()
}

/// Why a text is not a derivation path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// The path has no elements.
    #[error("the path has no elements")]
    Empty,
    /// The text begins with a slash.
    #[error("the path begins with a slash instead of m/ or a number")]
    Ambiguous,
    /// A component is not a number.
    #[error("{0:?} in the path is not a number")]
    Component(String),
    /// A number is too large.
    #[error("{0} in the path is above 4294967295")]
    Range(u128),
    /// A number is too large to be hardened.
    #[error("{0}' in the path is above 2147483647'")]
    HardenedRange(u128),
    /// The path has more elements than any device accepts.
    #[error("a path has at most 16 elements")]
    TooLong,
}

/// A feature that only some wallets have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum WalletFeature {
    /// Deriving accounts.
    #[display("derive accounts")]
    Derivation,
    /// Initializing a device.
    #[display("be initialized")]
    Initialization,
    /// Pairing a device.
    #[display("be paired")]
    Pairing,
}

/// Why a text is not a secret key. No variant contains a part of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyTextProblem {
    /// A character that is not a hexadecimal digit.
    #[error("the key contains a character that is not a hexadecimal digit")]
    Letter,
    /// An odd number of digits.
    #[error("the key has an odd number of digits")]
    OddLength,
    /// Not 64 digits.
    #[error("the key does not have 64 hexadecimal digits")]
    Length,
    /// Not below the curve order.
    #[error("the key is not below the order of the curve")]
    TooLarge,
    /// Zero.
    #[error("the key is zero")]
    Zero,
}

/// Why a key file cannot be read or opened. No variant contains a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileProblem {
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
    #[error("unknown version {0}")]
    Version(String),
    /// A cipher other than `aes-128-ctr`.
    #[error("unknown cipher {0}")]
    Cipher(String),
    /// A key derivation other than `scrypt` and `pbkdf2`.
    #[error("unknown key derivation {0}")]
    Kdf(String),
    /// A pseudo-random function other than `hmac-sha256`.
    #[error("unknown pseudo-random function {0}")]
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
    #[error("the password is wrong, or the key file is damaged")]
    WrongPassword,
    /// The decrypted bytes are not a valid secret key.
    #[error("invalid key: the decrypted number is zero or not below the order of the curve")]
    InvalidKey,
    /// The key's address differs from the one in the file.
    #[error("the key file contains the key of {have} instead of {want}")]
    OtherAccount {
        /// The key's own address.
        have: Address,
        /// The address in the file.
        want: Address,
    },
}
