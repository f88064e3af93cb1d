//! The step of the historic exchange at the beginning of a block: `tenon-native-exchange`, over the block's state.

use alloy_primitives::{Address, U256};
use tenon_api::{BlockNumber, Header, StoreError, Transaction, WholeBalance};
use tenon_chain::NativeSettings;
use tenon_native_exchange::{self as exchange, MainState, OpeningError};

pub(crate) use tenon_native_exchange::{Opening, Prices};

use super::token_test::decimals_of;
use crate::{ExecutionError, block::BlockEvm, error::TransactionRejection};

/// What to do with the exchange's step at the beginning of a block.
pub(crate) enum Step {
    /// Executed. With `None`, a block that would need it is refused.
    Taken(Option<Opening>),
    /// Skipped, as by the reference in traces; nothing is refused.
    Skipped,
}

/// The error of a block whose opening step fails.
pub(crate) fn in_block(number: BlockNumber, error: OpeningError) -> ExecutionError {
    match error {
        OpeningError::Unsupported(what) => ExecutionError::Unsupported { number, what },
        OpeningError::Rule(reason) => ExecutionError::Exchange { number, reason },
        OpeningError::Consensus(error) => error.into(),
        OpeningError::Store(error) => error.into(),
        OpeningError::Trie(source) => ExecutionError::Trie { number, source },
    }
}

/// Refuses a block whose opening step would change the exchange's state, if that step is not executed.
pub(super) fn check_block<I>(
    native: &NativeSettings,
    header: &Header,
    evm: &mut BlockEvm<I>,
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
pub(super) struct OpenedBlock<'a, I>(pub(super) &'a mut BlockEvm<I>);

impl<I> MainState for OpenedBlock<'_, I> {
    fn balance(&mut self, account: Address) -> Result<WholeBalance, StoreError> {
        self.0.ctx.journaled_state.database.whole_balance(account)
    }

    fn set_balance(&mut self, account: Address, balance: WholeBalance) -> Result<(), StoreError> {
        self.0.ctx.journaled_state.database.set_balance(account, balance)
    }

    fn slot(&mut self, contract: Address, slot: U256) -> Result<U256, StoreError> {
        self.0.ctx.journaled_state.database.read_slot(contract, slot)
    }

    fn set_slot(&mut self, contract: Address, slot: U256, value: U256) -> Result<(), StoreError> {
        self.0.ctx.journaled_state.database.write_slot(contract, slot, value)
    }

    fn exists(&mut self, account: Address) -> Result<bool, StoreError> {
        self.0.ctx.journaled_state.database.exists(account)
    }

    fn decimals(&mut self, token: Address) -> Result<Option<u8>, StoreError> {
        decimals_of(self.0, token)
    }
}

#[cfg(test)]
mod tests;
