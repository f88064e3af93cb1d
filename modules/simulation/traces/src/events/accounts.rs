//! A tracer's view of accounts, during and after a run.

use alloy_primitives::{Address, Bytes, U256};
use revm::{
    Database, DatabaseRef,
    state::{Account, AccountInfo, EvmState},
};
use tenon_api::WholeBalance;
use tenon_execution_interface::{BlockContext, BlockState, StateError, widen};

/// Account queries. They do not make anything warm.
pub trait Accounts {
    /// The account's balance in wei, at its full width.
    ///
    /// # Errors
    /// The database failed; likewise for the other queries.
    fn balance(&mut self, address: Address) -> Result<WholeBalance, StateError>;
    /// The account's nonce.
    fn nonce(&mut self, address: Address) -> Result<u64, StateError>;
    /// The account's code.
    fn code(&mut self, address: Address) -> Result<Bytes, StateError>;
    /// Whether there is such an account.
    fn exists(&mut self, address: Address) -> Result<bool, StateError>;
    /// A slot of the account.
    fn slot(&mut self, address: Address, slot: U256) -> Result<U256, StateError>;
}

/// The changes of a run, over the state before it.
pub(super) struct Layered<'a> {
    changed: &'a EvmState,
    below: &'a mut BlockState,
}

impl<'a> Layered<'a> {
    /// The state during a run.
    pub(super) fn during(context: &'a mut BlockContext) -> Self {
        let journal = &mut context.journaled_state;
        Self { changed: &journal.inner.state, below: &mut journal.database }
    }

    /// The state after a run that changed `changed`.
    pub(super) const fn after(changed: &'a EvmState, below: &'a mut BlockState) -> Self {
        Self { changed, below }
    }

    fn info(&mut self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        match self.changed.get(&address) {
            Some(account) => Ok(Some(account.info.clone())),
            None => self.below.basic_ref(address),
        }
    }
}

impl Accounts for Layered<'_> {
    fn balance(&mut self, address: Address) -> Result<WholeBalance, StateError> {
        let Some(account) = self.changed.get(&address) else { return Ok(self.below.whole_balance(address)?) };
        let seen = account.info.balance;
        Ok(self.below.whole_balances_mut().map_or_else(|| widen(seen), |balances| balances.whole(address, seen)))
    }

    fn nonce(&mut self, address: Address) -> Result<u64, StateError> {
        Ok(self.info(address)?.map_or(0, |info| info.nonce))
    }

    fn code(&mut self, address: Address) -> Result<Bytes, StateError> {
        let Some(info) = self.info(address)? else { return Ok(Bytes::new()) };
        if let Some(code) = info.code {
            return Ok(code.original_bytes());
        }
        Ok(self.below.code_by_hash_ref(info.code_hash)?.original_bytes())
    }

    fn exists(&mut self, address: Address) -> Result<bool, StateError> {
        match self.changed.get(&address) {
            Some(account) => Ok(!account.is_loaded_as_not_existing() || account.is_touched()),
            None => Ok(self.below.basic_ref(address)?.is_some()),
        }
    }

    fn slot(&mut self, address: Address, slot: U256) -> Result<U256, StateError> {
        let account = self.changed.get(&address);
        if let Some(value) = account.and_then(|account| account.storage.get(&slot)) {
            return Ok(value.present_value);
        }
        // A new account does not have the storage that existed there before.
        if account.is_some_and(Account::is_created) {
            return Ok(U256::ZERO);
        }
        self.below.storage(address, slot)
    }
}
