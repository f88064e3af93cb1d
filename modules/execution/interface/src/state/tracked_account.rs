//! One account of a block's state: its value in the parent's state, and now.

use alloy_primitives::{Address, B256, U256, map::U256Map};
use revm::state::{Account as EvmAccount, AccountInfo};
use tenon_api::{Account, AccountChange, EMPTY_CODE_HASH, EMPTY_ROOT_HASH, SlotChange};

/// An account, with the changes since the parent's state.
#[derive(Clone, Default)]
pub(super) struct TrackedAccount {
    /// The value in the parent's state.
    pub(super) before: Option<Account>,
    pub(super) now: Option<AccountInfo>,
    /// Whether all storage of the parent's state is deleted, so that `slots` is complete.
    pub(super) is_wiped: bool,
    pub(super) slots: U256Map<TrackedSlot>,
}

/// Bytes of an account or slot in its table, which may have twice the capacity that it needs.
pub(super) const ACCOUNT_BYTES: usize = 2 * (size_of::<(Address, TrackedAccount)>() + 1);
pub(super) const SLOT_BYTES: usize = 2 * (size_of::<(U256, TrackedSlot)>() + 1);

/// A slot, with its value in the parent's state.
#[derive(Clone, Copy)]
pub(super) struct TrackedSlot {
    pub(super) before: U256,
    pub(super) now: U256,
}

impl TrackedAccount {
    /// Deletes the account with its storage.
    pub(super) fn destroy(&mut self) {
        self.now = None;
        self.is_wiped = true;
        self.slots.clear();
    }

    /// Sets a slot.
    pub(super) fn set(&mut self, slot: U256, value: U256) {
        // A slot that was never read here is either new storage of a wiped account, or an override.
        self.slots.entry(slot).or_insert(TrackedSlot { before: U256::ZERO, now: U256::ZERO }).now = value;
    }

    /// Returns whether there is storage, but neither nonce nor code: an account made by init code before EIP-161, or in
    /// a genesis file.
    pub(super) fn has_storage_alone(&self) -> bool {
        let is_bare = self.now.as_ref().is_some_and(|info| info.nonce == 0 && info.code_hash == EMPTY_CODE_HASH);
        let kept = !self.is_wiped && self.before.is_some_and(|account| account.storage_root != EMPTY_ROOT_HASH);
        is_bare && (kept || self.slots.values().any(|slot| !slot.now.is_zero()))
    }

    /// Returns whether a transaction left the account unchanged.
    pub(super) fn is_as_before(&self, account: &EvmAccount) -> bool {
        let is_same = |now: &AccountInfo| {
            (now.balance, now.nonce, now.code_hash)
                == (account.info.balance, account.info.nonce, account.info.code_hash)
        };
        self.now.as_ref().is_some_and(is_same) && account.storage.values().all(|slot| !slot.is_changed())
    }

    /// Takes the result of a transaction.
    pub(super) fn apply(&mut self, account: EvmAccount) {
        // The journal has already adapted empty accounts to the rules before EIP-161.
        let is_cleared = account.is_empty() && !account.is_created();
        if account.is_selfdestructed() || is_cleared {
            return self.destroy();
        }
        if account.is_created() {
            self.is_wiped = true;
            self.slots.clear();
        }
        for (slot, value) in &account.storage {
            if value.is_changed() {
                self.set(*slot, value.present_value);
            }
        }
        self.now = Some(AccountInfo { code: None, account_id: None, ..account.info });
    }

    /// The difference from the parent's state, if there is one. `high` is the part of the balance above 256 bits.
    pub(super) fn change(&self, address: Address, high: u64) -> Option<AccountChange> {
        let had_storage = self.before.is_some_and(|account| account.storage_root != EMPTY_ROOT_HASH);
        let storage_wiped = self.is_wiped && had_storage;
        let kept_root = self.before.filter(|_| !self.is_wiped).map_or(EMPTY_ROOT_HASH, |before| before.storage_root);
        let account = self.now.as_ref().map(|info| Account {
            nonce: info.nonce,
            balance: info.balance,
            balance_high: high,
            code_hash: info.code_hash,
            storage_root: kept_root,
        });
        let mut slots: Vec<SlotChange> = self
            .slots
            .iter()
            .filter(|(_, slot)| if self.is_wiped { !slot.now.is_zero() } else { slot.now != slot.before })
            .map(|(slot, value)| SlotChange { slot: B256::from(*slot), value: value.now })
            .collect();
        slots.sort_unstable_by_key(|change| change.slot);
        let is_same = account == self.before && slots.is_empty() && !storage_wiped;
        (!is_same).then_some(AccountChange { address, account, storage_wiped, slots })
    }
}

/// The account as the EVM reads it.
//
// `code` must be `None`: a default `Some(empty)` would make the EVM silently run contracts as empty accounts.
pub(super) fn account_info(account: Account) -> AccountInfo {
    AccountInfo {
        balance: account.balance,
        nonce: account.nonce,
        code_hash: account.code_hash,
        account_id: None,
        code: None,
    }
}

/// An account that does not exist, as the EVM reads it.
pub(super) fn absent_account() -> AccountInfo {
    account_info(Account::default())
}
