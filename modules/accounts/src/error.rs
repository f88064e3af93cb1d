use std::path::PathBuf;

use tenon_api::{Failure, U256};

use crate::keystore::{KeyFileError, KeyFolderError};

/// Why a key could not be made or used. No variant carries any part of a secret.
#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    /// The mnemonic is not 12, 15, 18, 21 or 24 English BIP-39 words with a right checksum.
    #[error("the mnemonic is not valid: it takes 12, 15, 18, 21 or 24 English BIP-39 words whose checksum is right")]
    InvalidMnemonic,
    /// More accounts were asked for than are made.
    #[error("{wanted} accounts are too many: at most {most}")]
    TooManyAccounts {
        /// How many were asked for.
        wanted: u32,
        /// How many can be made.
        most: u32,
    },
    /// A derived number is no secret key; the chance of it is one in 2^127.
    #[error("account {index} of this mnemonic has no valid key")]
    InvalidKey {
        /// Which account.
        index: u32,
    },
    /// No key of this node belongs to the address.
    #[error("unknown account")]
    UnknownAccount,
    /// No key file of this node states the address.
    #[error("no key for given address or file")]
    NoKeyFile,
    /// Several key files state the address.
    #[error("multiple keys match address ({})", .0.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "))]
    SeveralKeyFiles(Vec<PathBuf>),
    /// The account is locked, or its key is not for whoever asks.
    #[error("authentication needed: password or unlock")]
    Locked,
    /// An account is not unlocked over TCP without a token.
    #[error("account unlock with HTTP access is forbidden")]
    UnlockForbidden,
    /// An account is not unlocked for so long.
    #[error("unlock duration too large")]
    DurationTooLong,
    /// The key of an address that is there already.
    #[error("account already exists")]
    Exists,
    /// The text is no secret key.
    #[error(transparent)]
    KeyText(#[from] KeyTextError),
    /// There is no folder of key files.
    #[error("local keystore not used")]
    NoKeystore,
    /// No wallet has this URL.
    #[error("unknown wallet")]
    UnknownWallet,
    /// The text is no URL of a wallet.
    #[error("protocol scheme missing")]
    NoWalletUrl,
    /// The wallet has no such operation.
    #[error("{0}")]
    NotSupported(&'static str),
    /// A signature of another length.
    #[error("signature must be 65 bytes long")]
    SignatureLength,
    /// A signature whose last byte is neither 27 nor 28.
    #[error("invalid Ethereum signature (V is not 27 or 28)")]
    SignatureParity,
    /// A signature that nobody can have made.
    #[error("recovery failed")]
    NotRecovered,
    /// The transaction could cost more than is signed for.
    #[error("tx fee ({:.2} ether) exceeds the configured cap ({:.2} ether)", ether(*fee), ether(*cap))]
    FeeTooHigh {
        /// What it could cost, wei.
        fee: U256,
        /// The bound, wei.
        cap: U256,
    },
    /// A key file could not be read, written or opened.
    #[error(transparent)]
    Folder(#[from] KeyFolderError),
    /// Keys are being derived already, as many as may be.
    #[error(transparent)]
    Busy(Failure),
    /// A member of the transaction is missing.
    #[error("{0}")]
    Incomplete(&'static str),
    /// The transaction names another chain.
    #[error("chainId does not match node's (have={found}, want={wanted})")]
    WrongChain {
        /// The chain that it names.
        found: u64,
        /// The node's.
        wanted: u64,
    },
    /// The members contradict one another, or ask for a type that can't be signed here.
    #[error("{0}")]
    Unsupported(&'static str),
}

/// Ether, as exact as two decimals need.
fn ether(wei: U256) -> f64 {
    f64::from(wei) / 1e18
}

impl From<AccountsError> for Failure {
    fn from(error: AccountsError) -> Self {
        match error {
            AccountsError::Busy(failure) => failure,
            // Callers know these words without the file's name.
            AccountsError::Folder(KeyFolderError::File { source: source @ KeyFileError::WrongPassword, .. }) => {
                Self::server(source.to_string())
            }
            error => Self::server(error.to_string()),
        }
    }
}

/// Why a text is no secret key. In the words of the reference, and without the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyTextError {
    /// A letter that is no hexadecimal digit.
    #[error("invalid hex character {0:?} in private key")]
    Letter(char),
    /// An odd number of digits.
    #[error("invalid hex data for private key")]
    OddLength,
    /// Not 64 digits.
    #[error("invalid length, need 256 bits")]
    Length,
    /// Not below the order of the curve.
    #[error("invalid private key, >=N")]
    TooLarge,
    /// Zero.
    #[error("invalid private key, zero or negative")]
    Zero,
}
