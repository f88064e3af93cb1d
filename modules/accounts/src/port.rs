//! The interface of wallet backends: key files and mnemonics today; devices and external signers later.

use alloy_primitives::{eip191_hash_message, keccak256};
use futures_util::future::BoxFuture;
use tenon_api::{Address, B256, SecretText, Transaction, messages::Wallet};
use tenon_bus::CallContext;

use crate::{AccountsError, key::HashSignature};

/// Wallets of one kind. The listing functions read a snapshot.
pub(crate) trait WalletBackend: Send + Sync {
    /// The wallets, in the order of their URLs.
    fn wallets(&self) -> Vec<Wallet>;

    /// The addresses of all accounts, in the order of the wallets.
    fn addresses(&self) -> Vec<Address>;

    /// Returns whether an account has this address.
    fn has_key(&self, address: Address) -> bool;

    /// The signer of an account, if the caller may use it.
    fn signer<'a>(
        &'a self,
        address: Address,
        authority: Authority<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn Signer>, AccountsError>>;
}

/// Authorisation of a signature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Authority<'a> {
    /// Opens the key for this signature only.
    pub(crate) password: Option<&'a SecretText>,
    /// The caller and the deadline.
    pub(crate) context: &'a CallContext,
}

/// An account that is ready to sign. A device shows a person what it signs, and answers after that person's decision.
pub(crate) trait Signer: Send + Sync {
    /// Signs.
    fn sign<'a>(&'a self, what: Signable<'a>) -> BoxFuture<'a, Result<HashSignature, AccountsError>>;
}

/// Data to sign.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Signable<'a> {
    /// A message in the form of EIP-191.
    Message(&'a [u8]),
    /// An unsigned transaction.
    Transaction(&'a Transaction),
    /// Typed data in the form of EIP-712.
    TypedData {
        /// Separator of its domain.
        domain: B256,
        /// Hash of its message; `None` if only the domain is signed.
        message: Option<B256>,
    },
    /// The digest of a block or of a consensus message.
    Block(B256),
}

impl Signable<'_> {
    /// The hash to sign.
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
