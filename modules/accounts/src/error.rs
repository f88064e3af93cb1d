use tenon_api::Failure;

/// Why a key could not be made or used. No variant carries any part of a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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

impl From<AccountsError> for Failure {
    fn from(error: AccountsError) -> Self {
        Self::server(error.to_string())
    }
}
