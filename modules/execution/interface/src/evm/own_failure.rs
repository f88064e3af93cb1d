//! Tells failures of this node from those of the block or transaction that was executed.

use revm::context::result::EVMError;
use tenon_api::{BlockNumber, StoreError};

use super::{EvmFailure, Interrupt};
use crate::{ExecutionError, StateError, TransactionRejection};

/// Why a run of the EVM has no result, if neither the block nor the transaction is the cause. Their validity is unknown.
#[derive(Debug)]
pub enum OwnFailure {
    /// The state could not be read, memory was refused, or the run was stopped.
    Store(StoreError),
    /// A precompiled contract has no defined result for its input (`docs/spec/chain.md` 5.4), or could not compute it.
    NoResult(String),
}

impl OwnFailure {
    /// The failure of this node. `interrupt` is that of the failed run.
    ///
    /// # Errors
    /// Returns a `failure` that the executed block or transaction has caused.
    pub fn of(failure: EvmFailure, interrupt: &Interrupt) -> Result<Self, EvmFailure> {
        if let Some(refused) = interrupt.refused_memory() {
            return Ok(Self::Store(StoreError::OutOfMemory { reason: refused.to_string() }));
        }
        match failure {
            EVMError::Database(StateError(error)) => Ok(Self::Store(error)),
            EVMError::Custom(text) if text == Interrupt::MARK => Ok(Self::Store(StoreError::Stopped)),
            EVMError::Custom(text) => Ok(Self::NoResult(text)),
            failure => Err(failure),
        }
    }

    /// The error of executing the block.
    pub fn in_block(self, number: BlockNumber) -> ExecutionError {
        match self {
            Self::Store(error) => error.into(),
            Self::NoResult(what) => ExecutionError::Unsupported { number, what },
        }
    }
}

impl From<OwnFailure> for TransactionRejection {
    fn from(failure: OwnFailure) -> Self {
        match failure {
            OwnFailure::Store(error) => Self::Store(error),
            OwnFailure::NoResult(what) => Self::NoResult(what),
        }
    }
}

#[cfg(test)]
mod tests {
    use revm::context::result::InvalidTransaction;
    use tenon_bus::{CallContext, OutOfMemory};

    use super::*;

    #[test]
    fn only_a_rule_of_the_transaction_is_no_failure_of_this_node() {
        let of = |failure| OwnFailure::of(failure, &Interrupt::never());
        let unread = StoreError::Engine("disk".to_owned());
        let database = of(EVMError::Database(StateError(unread.clone()))).unwrap();
        assert_eq!(TransactionRejection::from(database), TransactionRejection::Store(unread));
        let stopped = of(EVMError::Custom(Interrupt::MARK.to_owned())).unwrap();
        assert_eq!(TransactionRejection::from(stopped), TransactionRejection::Store(StoreError::Stopped));

        let refused = OutOfMemory::Node { asked: 5 };
        let mut interrupt = Interrupt::for_caller(&CallContext::new(), None);
        interrupt.refuse_memory(refused);
        let full = OwnFailure::of(EVMError::Custom(Interrupt::MARK.to_owned()), &interrupt).unwrap();
        let reason = refused.to_string();
        assert_eq!(TransactionRejection::from(full), TransactionRejection::Store(StoreError::OutOfMemory { reason }));

        let undefined = || of(EVMError::Custom("no such point".to_owned())).unwrap();
        assert!(!undefined().in_block(BlockNumber(7)).is_block_invalid());
        let reason = TransactionRejection::from(undefined());
        let number = BlockNumber(7);
        let error = ExecutionError::Transaction { number, index: 0, hash: alloy_primitives::B256::ZERO, reason };
        assert!(!error.is_block_invalid());

        let broken = of(EVMError::Transaction(InvalidTransaction::RejectCallerWithCode)).unwrap_err();
        assert!(matches!(broken, EVMError::Transaction(InvalidTransaction::RejectCallerWithCode)));
    }
}
