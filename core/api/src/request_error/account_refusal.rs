//! Why a wallet or key refuses a request.

use std::path::PathBuf;

use alloy_primitives::U256;

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
    /// The wallet does not have this feature.
    #[error("the wallet cannot {0}")]
    NotSupported(WalletFeature),
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
