//! Errors of the accounts module.

use tenon_api::{AccountRefusal, BusError, KeyFileProblem, RequestError};

use crate::keystore::KeyFolderError;

/// Why a key could not be created or used. No variant contains any part of a secret.
#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    /// The wallet or key refuses. Plugins write the text for clients.
    #[error(transparent)]
    Refused(#[from] AccountRefusal),
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
    /// The account was locked, or its key file removed, while its key was derived.
    #[error("the account was locked while it was being unlocked")]
    LockedMeanwhile,
    /// The wallet has no such operation.
    #[error("{0}")]
    NotSupported(&'static str),
    /// An external signer's own error text, or why typed data cannot be shown by a device. It contains no secret and no
    /// control characters for terminals.
    #[error("{0}")]
    Wallet(String),
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
    /// The transaction has blobs, whose sidecars this node does not make.
    #[error("blob transactions cannot be signed by this node: sign one elsewhere and send it with its sidecar")]
    NoBlobs,
}

impl AccountsError {
    /// The refusal whose text clients know.
    ///
    /// # Errors
    /// This error if it is not a refusal.
    pub fn into_refusal(self) -> Result<AccountRefusal, Self> {
        match self {
            Self::Refused(refusal) => Ok(refusal),
            Self::Folder(error) => error.into_refusal().map_err(Self::Folder),
            error => Err(error),
        }
    }
}

impl From<AccountsError> for BusError {
    fn from(error: AccountsError) -> Self {
        match error {
            AccountsError::NotCompleted(error) | AccountsError::Pool(error) => error,
            // The refusal leaves out the file's name, because clients match its text.
            AccountsError::Folder(KeyFolderError::File { source: KeyFileProblem::WrongPassword, .. }) => {
                RequestError::from(AccountRefusal::WrongPassword).into()
            }
            error => match error.into_refusal() {
                Ok(refusal) => RequestError::from(refusal).into(),
                Err(error) => Self::failed(error),
            },
        }
    }
}
