//! The interface of wallet backends: key files and mnemonics in this crate; devices and external signers elsewhere
//! ([`WalletDirectory::with_backend`](crate::WalletDirectory::with_backend)).

use alloy_primitives::{eip191_hash_message, keccak256};
use async_trait::async_trait;
use tenon_api::{
    AccountRefusal, Address, B256, SecretText, Transaction, WalletFeature,
    messages::{SignerAbilities, Wallet, WalletAnswer, WalletOperation},
};
use tenon_bus::CallContext;

use crate::{AccountsError, key::HashSignature};

/// Where the keys of a backend are. If several backends list an address, the first of these signs: a signing service
/// must not take over the accounts of the node's own keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyPlace {
    /// In this process.
    Node,
    /// In a hardware wallet.
    Device,
    /// In another process.
    Service,
}

/// Wallets of one kind. The listing functions read a snapshot: they never wait for a device, a person or another
/// process.
///
/// Dropping a future cancels its request, even at the device or signer.
#[async_trait]
pub trait WalletBackend: Send + Sync {
    /// The part of its wallets' URLs before `://`. Backends are sorted by scheme.
    fn scheme(&self) -> &'static str;

    /// Where its keys are.
    fn key_place(&self) -> KeyPlace;

    /// The wallets, in the order of their URLs.
    fn wallets(&self) -> Vec<Wallet>;

    /// The addresses of all accounts, in the order of the wallets.
    fn addresses(&self) -> Vec<Address>;

    /// Returns whether an account has this address.
    fn has_key(&self, address: Address) -> bool;

    /// Returns whether its accounts sign without ever being unlocked, so that unlocking one succeeds.
    fn is_always_unlocked(&self) -> bool {
        false
    }

    /// The kinds of data that the account can sign, as far as known without a request to a device or another process.
    fn abilities(&self, _address: Address) -> SignerAbilities {
        SignerAbilities::ALL
    }

    /// The signer of an account, if the caller may use it. Does not wait for confirmation: the sender's nonces are
    /// chosen afterwards.
    async fn signer(&self, address: Address, authority: Authority<'_>) -> Result<Box<dyn Signer>, AccountsError>;

    /// Runs an operation on the wallet with this URL, which is one of [`WalletBackend::wallets`]. May wait for
    /// confirmation by a person.
    async fn use_wallet(
        &self,
        _url: &str,
        operation: WalletOperation,
        _context: &CallContext,
    ) -> Result<WalletAnswer, AccountsError> {
        without_device(&operation)
    }
}

/// The reference's answers for wallets that are not devices: a key file needs no opening, and reports success.
fn without_device(operation: &WalletOperation) -> Result<WalletAnswer, AccountsError> {
    match operation {
        WalletOperation::Open { .. } => Ok(WalletAnswer::Done),
        WalletOperation::Derive { .. } => Err(AccountRefusal::NotSupported(WalletFeature::Derivation).into()),
        WalletOperation::Initialize => Err(AccountRefusal::NotSupported(WalletFeature::Initialization).into()),
        WalletOperation::Unpair { .. } => Err(AccountRefusal::NotSupported(WalletFeature::Pairing).into()),
    }
}

/// Authorisation of a signature.
#[derive(Clone, Copy, Debug)]
pub struct Authority<'a> {
    /// Opens the key for this signature only. Wallets that ask a person for confirmation ignore it.
    pub password: Option<&'a SecretText>,
    /// The caller and the deadline.
    pub context: &'a CallContext,
}

/// An account that is ready to sign. A device shows what it signs, and answers after the person's decision.
#[async_trait]
pub trait Signer: Send + Sync {
    /// Signs.
    async fn sign(&self, what: Signable<'_>) -> Result<HashSignature, AccountsError>;

    /// Whether it signs with a key in this process's memory, so that its signatures need no recovery.
    fn has_key_in_memory(&self) -> bool {
        false
    }

    /// The public key (x and y), if known without a request to a device or another process.
    fn public_key(&self) -> Option<[u8; 64]> {
        None
    }
}

/// Data to sign.
#[derive(Clone, Copy, Debug)]
pub enum Signable<'a> {
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
        /// The data as JSON with the members of `eth_signTypedData_v4`, if the caller gave them: for signers that show
        /// them. They are untrusted and may not match the hashes: compare the signature with [`Signable::hash`].
        data: Option<&'a str>,
    },
    /// The digest of a block or of a consensus message.
    Block(B256),
}

impl Signable<'_> {
    /// The hash to sign.
    pub fn hash(self) -> B256 {
        match self {
            Self::Message(message) => eip191_hash_message(message),
            Self::Transaction(transaction) => tenon_chain::signing_hash(transaction),
            Self::TypedData { domain, message, .. } => {
                let message = message.as_ref().map_or(&[][..], |hash| hash.as_slice());
                keccak256([&[0x19, 0x01], domain.as_slice(), message].concat())
            }
            Self::Block(digest) => digest,
        }
    }
}
