//! The interface that the engine of a chain family provides to the sealer of `tenon-consensus`, in addition to the
//! `ConsensusEngine` of `tenon-api`, which decides about blocks.
//!
//! It owns [`SealerTransactionSource`], which makes the transactions that a network expects from the maker of a block.
//! `modules/native/consensus` implements it, and `core/node` passes the implementation to the sealer.
//!
//! Invariants: traits only, in the types of `tenon-api`. The crate knows neither the sealer nor an engine, and makes no
//! block.

#![forbid(unsafe_code)]

use std::fmt;

use tenon_api::{RecoveredTransaction, SealedHeader, SignError, StateReader, StoreError};

/// Makes the transactions that a network expects from the maker of a block.
pub trait SealerTransactionSource: fmt::Debug + Send + Sync {
    /// Returns the transaction that is due in the block after `head`, if there is one. Its nonce is the account's nonce
    /// in `state`, the state after `head`; therefore no other program may use the key.
    ///
    /// # Errors
    /// [`SealerTransactionError`].
    fn transaction(
        &self,
        head: &SealedHeader,
        state: &dyn StateReader,
    ) -> Result<Option<RecoveredTransaction>, SealerTransactionError>;
}

/// Why a transaction that is due cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SealerTransactionError {
    /// The state cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The maker of the block cannot sign.
    #[error(transparent)]
    Signer(#[from] SignError),
}
