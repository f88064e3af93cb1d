//! A single transaction over a state, without a block.

use std::sync::Arc;

use alloy_primitives::{Address, B256, U256};
use tenon_api::{AccountChange, BlockNumber, Header, Receipt, StateReader, StoreError, Transaction, TrieReader};
use tenon_execution_interface::{BlockOrigin, BlockState, ExecutionError, Interrupt, StateError, TransactionRejection};

use crate::{execution::BlockExecution, executor::Executor};

/// The state before the transaction.
#[derive(Clone)]
pub struct StateBefore {
    /// Accounts, storage, code and block hashes.
    pub state: Arc<dyn StateReader>,
    /// The same state's trie nodes.
    pub trie: Arc<dyn TrieReader>,
    /// The same state's root.
    pub root: B256,
}

/// The result of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The receipt, or the rule that the transaction breaks.
    pub receipt: Result<Receipt, TransactionRejection>,
    /// The root of the state after it.
    pub state_root: B256,
}

impl Executor {
    /// Executes a transaction as the first one of a block with this header, without the steps that open and close a
    /// block: no system calls, withdrawals or rewards. The beneficiary is touched, as by a reward of zero, even if the
    /// transaction is rejected. This is what the public state tests require (`docs/spec/conformance.md` 6.2).
    ///
    /// # Errors
    /// [`ExecutionError`] when the state cannot be read or the header lacks an item of its fork.
    pub fn transition(
        &self,
        header: &Header,
        transaction: &Transaction,
        sender: Address,
        before: &StateBefore,
    ) -> Result<Transition, ExecutionError> {
        let state = self.state_over(Arc::clone(&before.state));
        let author = header.beneficiary;
        let mut execution =
            BlockExecution::watched(self.family(), header, author, state, Interrupt::never(), (), BlockOrigin::Header)?;
        execution.set_receipt_root_base(Arc::clone(&before.trie), before.root);
        let result = execution.run_transaction(transaction, sender);
        let clears_empty = execution.clears_empty_accounts();
        let (receipt, mut state) = execution.into_last_receipt_and_state().map_err(|StateError(error)| error)?;
        let receipt = match (result, receipt) {
            (Ok(()), Some(receipt)) => Ok(receipt),
            (Ok(()), None) => return Err(StoreError::Corrupt { what: "receipt".to_owned() }.into()),
            (Err(rejection), _) => Err(rejection.unless_unreadable(header.number.into())?),
        };
        state.credit(author, U256::ZERO, clears_empty)?;
        let state_root = root_after(header.number.into(), &state, before)?;
        Ok(Transition { receipt, state_root })
    }
}

fn root_after(number: BlockNumber, state: &BlockState, before: &StateBefore) -> Result<B256, ExecutionError> {
    let mut changes: Vec<AccountChange> = state.changes();
    let previous = |address| state.account_before(address);
    tenon_chain::update_state_trie(&*before.trie, before.root, &mut changes, &previous)
        .map(|update| update.root)
        .map_err(|source| ExecutionError::Trie { number, source })
}
