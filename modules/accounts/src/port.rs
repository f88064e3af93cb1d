//! What a source of accounts is to the rest of this room: key files and mnemonics today; devices and external signers join here.

use alloy_primitives::{eip191_hash_message, keccak256};
use futures_util::future::BoxFuture;
use tenon_api::{Address, B256, SecretText, Transaction, messages::Wallet};
use tenon_bus::CallContext;

use crate::{AccountsError, key::HashSignature};

/// Wallets of one kind. Whatever lists answers from a snapshot.
pub(crate) trait WalletBackend: Send + Sync {
    /// The wallets, in the order of their URLs.
    fn wallets(&self) -> Vec<Wallet>;

    /// The addresses of all accounts, in the order of the wallets.
    fn addresses(&self) -> Vec<Address>;

    /// Whether an account has this address.
    fn has_key(&self, address: Address) -> bool;

    /// What signs for an account, if whoever asks may use it.
    fn signer<'a>(
        &'a self,
        address: Address,
        authority: Authority<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn Signer>, AccountsError>>;
}

/// By what right somebody asks for a signature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Authority<'a> {
    /// Opens the key for this signature alone.
    pub(crate) password: Option<&'a SecretText>,
    /// Who asks, and until when.
    pub(crate) context: &'a CallContext,
}

/// An account that is ready to sign. A device shows a person what it signs, and answers when that person has decided.
pub(crate) trait Signer: Send + Sync {
    /// The signature.
    fn sign<'a>(&'a self, what: Signable<'a>) -> BoxFuture<'a, Result<HashSignature, AccountsError>>;
}

/// What is signed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Signable<'a> {
    /// A message in the form of EIP-191.
    Message(&'a [u8]),
    /// A transaction without signature.
    Transaction(&'a Transaction),
    /// Typed data in the form of EIP-712.
    TypedData {
        /// Separator of its domain.
        domain: B256,
        /// Hash of its message; none where the domain alone is signed.
        message: Option<B256>,
    },
    /// A block, or what its maker says about blocks: a digest of the consensus.
    Block(B256),
}

impl Signable<'_> {
    /// The hash that the signature is over.
    pub(crate) fn hash(self) -> B256 {
        match self {
            Self::Message(message) => eip191_hash_message(message),
            Self::Transaction(transaction) => tenon_chain::signing_hash(transaction),
            Self::TypedData { domain, message } => {
                let message = message.as_ref().map_or(&[][..], |hash| hash.as_slice());
                keccak256([&[0x19, 0x01], domain.as_slice(), message].concat())
            }
            Self::Block(digest) => digest,
        }
    }
}
