//! The step of the historic exchange at the beginning of a block: `tenon-native-exchange`, over the block's state.

use alloy_primitives::{Address, U256};
use tenon_api::{BlockNumber, Header, StoreError, Transaction, WholeBalance};
use tenon_native_exchange::{self as exchange, DecimalsError, MainState, OpeningError};
use tenon_native_spec::NativeSettings;

pub(crate) use tenon_native_exchange::{Opening, Prices};

use super::token_test::decimals_of;
use tenon_execution_interface::{AnyEvm, BlockState, ExecutionError, OwnFailure, TransactionRejection};

/// The error of a block whose opening step fails.
pub(super) fn in_block(number: BlockNumber, error: OpeningError) -> ExecutionError {
    match error {
        OpeningError::Unsupported(what) => ExecutionError::Unsupported { number, what },
        OpeningError::Rule(broken) => ExecutionError::Exchange { number, reason: broken.to_string() },
        OpeningError::Consensus(error) => error.into(),
        OpeningError::Store(error) => error.into(),
        OpeningError::Trie(source) => ExecutionError::Trie { number, source },
    }
}

/// Refuses a block whose opening step would change the exchange's state, if that step is not executed.
pub(super) fn check_block(
    native: &NativeSettings,
    header: &Header,
    evm: &mut AnyEvm<'_>,
) -> Result<(), ExecutionError> {
    let unsupported = |exchange::Unsupported(what)| ExecutionError::Unsupported {
        number: header.number.into(),
        what: what.to_owned(),
    };
    exchange::check_block(native, header, &mut OpenedBlock(evm))?.map_err(unsupported)
}

/// Refuses a transaction that only the exchange could check, if its step was not executed.
pub(super) fn check_transaction(
    native: &NativeSettings,
    number: u64,
    author: Address,
    transaction: &Transaction,
    sender: Address,
) -> Result<(), TransactionRejection> {
    exchange::check_transaction(native, number, author, transaction, sender)
        .map_err(|exchange::Unsupported(what)| TransactionRejection::Unsupported(what))
}

/// The state of a block before its first transaction.
pub(super) struct OpenedBlock<'a, 'e>(pub(super) &'a mut AnyEvm<'e>);

impl OpenedBlock<'_, '_> {
    fn state(&mut self) -> &mut BlockState {
        &mut self.0.context().journaled_state.database
    }
}

impl MainState for OpenedBlock<'_, '_> {
    fn balance(&mut self, account: Address) -> Result<WholeBalance, StoreError> {
        self.state().whole_balance(account)
    }

    fn set_balance(&mut self, account: Address, balance: WholeBalance) -> Result<(), StoreError> {
        self.state().set_balance(account, balance)
    }

    fn slot(&mut self, contract: Address, slot: U256) -> Result<U256, StoreError> {
        self.state().read_slot(contract, slot)
    }

    fn set_slot(&mut self, contract: Address, slot: U256, value: U256) -> Result<(), StoreError> {
        self.state().write_slot(contract, slot, value)
    }

    fn exists(&mut self, account: Address) -> Result<bool, StoreError> {
        self.state().exists(account)
    }

    fn decimals(&mut self, token: Address) -> Result<Option<u8>, DecimalsError> {
        decimals_of(self.0, token).map_err(|failure| match failure {
            OwnFailure::Store(error) => DecimalsError::Store(error),
            OwnFailure::NoResult(_) => DecimalsError::NoResult,
        })
    }
}

#[cfg(test)]
mod tests;
