//! Errors of the accounts module.

use std::path::PathBuf;

use tenon_api::{BusError, U256};

use crate::keystore::{KeyFileError, KeyFolderError};

/// Why a key could not be created or used. No variant contains any part of a secret.
#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    /// The mnemonic is not 12, 15, 18, 21 or 24 English BIP-39 words with a valid checksum.
    #[error(
        "the mnemonic is not valid: 12, 15, 18, 21 or 24 English BIP-39 words with a correct checksum are required"
    )]
    InvalidMnemonic,
    /// More accounts were requested than the node derives.
    #[error("{wanted} accounts are too many; at most {max} are allowed")]
    TooManyAccounts {
        /// Number requested.
        wanted: u32,
        /// Maximum.
        max: u32,
    },
    /// A derived number is not a valid secret key; the probability is one in 2^127.
    #[error("account {index} of this mnemonic has no valid key")]
    InvalidKey {
        /// Index of the account.
        index: u32,
    },
    /// This node has no key for the address.
    #[error("unknown account")]
    UnknownAccount,
    /// No key file of this node contains the address.
    #[error("no key for given address or file")]
    NoKeyFile,
    /// Several key files contain the address.
    #[error("multiple keys match address ({})", .0.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "))]
    SeveralKeyFiles(Vec<PathBuf>),
    /// The account is locked, or the caller may not use its key.
    #[error("authentication needed: password or unlock")]
    Locked,
    /// The account was locked, or its key file removed, while its key was derived.
    #[error("the account was locked while it was being unlocked")]
    LockedMeanwhile,
    /// Accounts are not unlocked over TCP without a token.
    #[error("account unlock with HTTP access is forbidden")]
    UnlockForbidden,
    /// The duration exceeds the maximum.
    #[error("unlock duration too large")]
    DurationTooLong,
    /// A key of this address already exists.
    #[error("account already exists")]
    Exists,
    /// The text is not a secret key.
    #[error(transparent)]
    KeyText(#[from] KeyTextError),
    /// There is no folder of key files.
    #[error("local keystore not used")]
    NoKeystore,
    /// No wallet has this URL.
    #[error("unknown wallet")]
    UnknownWallet,
    /// The text is not a wallet URL.
    #[error("protocol scheme missing")]
    NoWalletUrl,
    /// The wallet has no such operation.
    #[error("{0}")]
    NotSupported(&'static str),
    /// A device's or external signer's own error text. It contains no secret and no control characters for terminals.
    #[error("{0}")]
    Wallet(String),
    /// The signature has the wrong length.
    #[error("signature must be 65 bytes long")]
    SignatureLength,
    /// A signature whose last byte is neither 27 nor 28.
    #[error("invalid Ethereum signature (V is not 27 or 28)")]
    SignatureParity,
    /// No signer can be recovered from the signature.
    #[error("recovery failed")]
    NotRecovered,
    /// The transaction could cost more than the limit for signing.
    #[error("tx fee ({:.2} ether) exceeds the configured cap ({:.2} ether)", ether(*fee), ether(*cap))]
    FeeTooHigh {
        /// Its maximum cost, wei.
        fee: U256,
        /// The limit, wei.
        cap: U256,
    },
    /// A key file could not be read, written or opened.
    #[error(transparent)]
    Folder(#[from] KeyFolderError),
    /// A key was not derived, or a signing service was not called: too many requests wait, the caller's time is over,
    /// or the derivation itself failed.
    #[error(transparent)]
    NotCompleted(BusError),
    /// The pool did not answer.
    #[error(transparent)]
    Pool(BusError),
    /// A member of the transaction is missing.
    #[error("{0}")]
    Incomplete(&'static str),
    /// The transaction's chain id is another chain's.
    #[error("chainId does not match node's (have={found}, want={wanted})")]
    WrongChain {
        /// Its chain id.
        found: u64,
        /// The node's.
        wanted: u64,
    },
    /// The members contradict one another, or need a type that is not supported here.
    #[error("{0}")]
    Unsupported(&'static str),
}

/// Ether as `f64`, precise enough for two decimals.
fn ether(wei: U256) -> f64 {
    f64::from(wei) / 1e18
}

impl From<AccountsError> for BusError {
    fn from(error: AccountsError) -> Self {
        match error {
            AccountsError::NotCompleted(error) | AccountsError::Pool(error) => error,
            // Clients match this text without the file's name.
            AccountsError::Folder(KeyFolderError::File { source: source @ KeyFileError::WrongPassword, .. }) => {
                Self::failed(source)
            }
            error => Self::failed(error),
        }
    }
}

/// Why a text is not a secret key, with the reference's texts and without the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyTextError {
    /// A character that is not a hexadecimal digit.
    #[error("invalid hex character in private key")]
    Letter,
    /// An odd number of digits.
    #[error("invalid hex data for private key")]
    OddLength,
    /// Not 64 digits.
    #[error("invalid length, need 256 bits")]
    Length,
    /// Not below the curve order.
    #[error("invalid private key, >=N")]
    TooLarge,
    /// Zero.
    #[error("invalid private key, zero or negative")]
    Zero,
}
