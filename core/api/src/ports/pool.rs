//! The transaction pool, as the network and the sealer see it, and what the pool asks of the accounts.

use std::error::Error;

use alloy_primitives::{Address, B256, Bytes};

use crate::{RecoveredTransaction, StoreError};

/// The pool as the network sees it. Every method may take milliseconds and belongs on a thread that may block.
pub trait PeerTransactions: Send + Sync {
    /// Offers transactions of peers to the pool, each in its canonical encoding. Refused transactions are dropped without
    /// blame, because the pool of a peer may have other rules.
    fn offer(&self, raw: &[Bytes]);
    /// The transactions that are ready for the next block.
    fn pending(&self) -> Vec<RecoveredTransaction>;
    /// Adds a transaction of the node itself, in its canonical bytes.
    ///
    /// # Errors
    /// [`SubmitError`].
    fn submit_own(&self, raw: &[u8]) -> Result<(), SubmitError>;
    /// The next nonce of an account, with its waiting transactions counted.
    ///
    /// # Errors
    /// [`StoreError`].
    fn next_nonce(&self, account: Address) -> Result<u64, StoreError>;
}

/// Why a transaction of the node itself is not in the pool.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The pool is off.
    #[error("the pool is disabled")]
    Disabled,
    /// The pool refuses it.
    #[error(transparent)]
    Refused(Box<dyn Error + Send + Sync>),
}

/// The sealer's view of the pool.
pub trait PendingTransactions: Send + Sync {
    /// Executable transactions in the order in which a block should try them: by effective tip, nonces of one sender
    /// ascending.
    fn best(&self, base_fee_per_gas: Option<u64>) -> Vec<RecoveredTransaction>;
}

/// The pool's view of the accounts whose keys this node has.
pub trait OwnAccounts: Send + Sync {
    /// Returns whether this node has the key of the address.
    fn has_key(&self, address: Address) -> bool;

    /// The sender of a transaction by its hash, if a key in this process has just signed it.
    fn signer_of(&self, transaction: B256) -> Option<Address>;
}
