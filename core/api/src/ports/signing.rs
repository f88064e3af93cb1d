//! The keys of a masternode.

use std::sync::Arc;

use alloy_primitives::{Address, B256};

use crate::{Header, Transaction};

/// What a masternode signs, for signers that look at the content: a service checks it against its policy.
#[derive(Clone, Copy, Debug)]
pub enum SignerMessage<'a> {
    /// A vote (`docs/spec/consensus.md` 5.4).
    Vote {
        /// Hash of the block.
        hash: B256,
        /// Its round.
        round: u64,
        /// Its height.
        number: u64,
        /// The gap number of its epoch.
        gap_number: u64,
    },
    /// A timeout (`docs/spec/consensus.md` 5.7).
    Timeout {
        /// The failed round.
        round: u64,
        /// The gap number of its epoch.
        gap_number: u64,
    },
    /// A finished header of engine v2, without the signature.
    Seal(&'a Header),
    /// A signing transaction (`docs/spec/consensus.md` 10.1), without the signature.
    Transaction(&'a Transaction),
}

/// Signs blocks and consensus messages of this node, without exposing the key.
pub trait BlockSigner: Send + Sync {
    /// The account that signs.
    fn address(&self) -> Address;
    /// Signs a digest: R, S in the lower half, recovery id; nonces follow RFC 6979. Does not block.
    ///
    /// # Errors
    /// [`SignError`] if the account is locked.
    fn sign(&self, digest: B256) -> Result<[u8; 65], SignError>;
    /// Signs the digest of this message. Does not block: a signer outside of this process begins to sign, and returns
    /// the signature when it is asked for the same digest later.
    ///
    /// # Errors
    /// [`SignError`]; [`SignError::is_pending`] while the signature is on its way.
    fn sign_message(&self, message: SignerMessage<'_>, digest: B256) -> Result<[u8; 65], SignError> {
        let _ = message;
        self.sign(digest)
    }
    /// Sets the function that is called, on any thread, when a pending signature has arrived, or a signer that did not
    /// answer is back. Replaces the one set before. Signers in this process never call it.
    fn on_ready(&self, ready: Arc<dyn Fn() + Send + Sync>) {
        let _ = ready;
    }
}

/// The account cannot sign: it is locked or gone, or its signer does not answer, or has not answered yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("block signer {address}: {reason}")]
pub struct SignError {
    /// The account.
    pub address: Address,
    /// The wallet's reason.
    pub reason: String,
    /// The signature is on its way: ask again after the call of [`BlockSigner::on_ready`].
    pub is_pending: bool,
}
