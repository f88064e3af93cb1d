//! The state during a block or a call: the parent's state below, changes above.

use std::sync::Arc;

use alloy_primitives::{
    Address, B256, Bytes, U256,
    map::{AddressMap, B256Map, B256Set},
};
use revm::{
    Database, DatabaseCommit, DatabaseRef,
    bytecode::Bytecode,
    database_interface::DBErrorMarker,
    state::{Account as EvmAccount, AccountInfo},
};
use tenon_api::{
    Account, AccountChange, AccountRecord, EMPTY_CODE_HASH, StateReader, StoreError, WholeBalance, join_balance,
    split_balance,
};

use super::{
    code_cache::{CodeCache, analyse},
    dirty_marks::{Change, DirtyMarks, RIPEMD},
    tracked_account::{ACCOUNT_BYTES, SLOT_BYTES, TrackedAccount, TrackedSlot, absent_account, account_info},
    whole_balances::{WholeBalances, could_overflow_u256, widen},
};
use crate::run_memory::RunMemory;

/// A database error, passed through the EVM.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct StateError(#[from] pub StoreError);

impl DBErrorMarker for StateError {}

/// The code hash that tells the EVM that an account without nonce and code has storage.
///
/// The EVM refuses to create a contract at an address with a nonce or code, but does not check storage. An account with
/// this hash has no code, and is empty if it has no balance, exactly as with the hash of empty code. Only for contract
/// creation is the address occupied, as EIP-7610 demands. EXTCODEHASH needs a check of its own (`evm/block_evm.rs`).
pub(crate) const CODE_HASH_OF_STORAGE_ALONE: B256 = B256::ZERO;

/// A state for execution. Reads fall through to the parent's state and are cached.
pub struct BlockState {
    parent: Arc<dyn StateReader>,
    code_cache: CodeCache,
    accounts: AddressMap<TrackedAccount>,
    /// Code deployed since the parent's state.
    codes: B256Map<Bytecode>,
    storage_prevents_creation: bool,
    /// Whether code of the form of EIP-7702 is a delegation; see [`BlockState::set_delegations`].
    has_delegations: bool,
    /// Which empty accounts are written, on native chains.
    marks: Option<EmptyAccounts>,
    /// The parts of balances above 256 bits; `None` until an account of at least 2^192 wei is read.
    whole_balances: Option<Box<WholeBalances>>,
    /// Refund of the transaction's authorizations (EIP-7702), gas. For tracers; the EVM adds it at the end.
    first_refund: u64,
    /// Counts the memory of this state; `None` for blocks of the chain.
    memory: Option<RunMemory>,
}

/// The accounts of a native chain that are empty in the parent's state.
struct EmptyAccounts {
    marks: DirtyMarks,
    /// Whether marked accounts are deleted (EIP-158).
    disappear: bool,
}

impl BlockState {
    /// The state after a parent, without changes. Analysed code is shared through the cache.
    pub fn new(parent: Arc<dyn StateReader>, code_cache: CodeCache) -> Self {
        Self {
            parent,
            code_cache,
            accounts: AddressMap::default(),
            codes: B256Map::default(),
            storage_prevents_creation: false,
            has_delegations: true,
            marks: None,
            whole_balances: None,
            first_refund: 0,
            memory: None,
        }
    }

    /// Counts the memory of this state from now on.
    pub fn count_in(&mut self, memory: RunMemory) {
        self.memory = Some(memory);
    }

    /// The memory of the run, if it is counted.
    pub(crate) const fn memory(&self) -> Option<&RunMemory> {
        self.memory.as_ref()
    }

    /// Counts memory of the run.
    ///
    /// # Errors
    /// [`StoreError::OutOfMemory`].
    pub fn hold(&self, bytes: usize) -> Result<(), StoreError> {
        self.memory.as_ref().map_or(Ok(()), |memory| memory.add_state(bytes))
    }

    /// Tracks empty accounts from now on, as native chains do. With `disappear`, marked ones are deleted (EIP-158).
    pub fn track_empty_accounts(&mut self, disappear: bool) {
        self.marks = Some(EmptyAccounts { marks: DirtyMarks::default(), disappear });
    }

    /// The marks of empty accounts, if they are tracked.
    pub fn dirty_marks_mut(&mut self) -> Option<&mut DirtyMarks> {
        self.marks.as_mut().map(|empty| &mut empty.marks)
    }

    /// Makes the EVM see accounts that have only storage.
    pub(crate) const fn set_storage_prevents_creation(&mut self, prevents: bool) {
        self.storage_prevents_creation = prevents;
    }

    /// Sets whether code of the form of EIP-7702 is a delegation, or ordinary code as before Prague. Applied when code
    /// is loaded, because blocks before and after the fork share the cache of analysed code.
    pub(crate) const fn set_delegations(&mut self, has_delegations: bool) {
        self.has_delegations = has_delegations;
    }

    /// Adds to a balance and touches the account, even if nothing is added (EIP-158 then deletes an empty one).
    pub fn credit(&mut self, address: Address, amount: U256, clears_empty: bool) -> Result<(), StoreError> {
        let whole = self.whole_balance(address)? + widen(amount);
        self.write_balance(address, whole)?;
        if clears_empty && self.is_written(address) && self.is_empty(address)? {
            self.tracked(address)?.destroy();
        }
        Ok(())
    }

    /// Writes an engine's record: nonce and slots. The account keeps its balance, and is not empty afterwards.
    pub fn write_record(&mut self, record: &AccountRecord) -> Result<(), StoreError> {
        self.update(record.account, |info| info.nonce = record.nonce)?;
        for (slot, value) in &record.slots {
            self.write_slot(record.account, (*slot).into(), *value)?;
        }
        Ok(())
    }

    /// Sets a balance on behalf of a block of a native chain: an account that becomes empty is deleted if touched ones
    /// are (EIP-158).
    pub fn set_balance(&mut self, address: Address, balance: WholeBalance) -> Result<(), StoreError> {
        self.write_balance(address, balance)?;
        let goes = self.marks.as_ref().is_some_and(|empty| empty.disappear) && self.is_written(address);
        if goes && self.is_empty(address)? {
            self.tracked(address)?.destroy();
        }
        Ok(())
    }

    /// Writes a balance, and nothing else.
    pub fn write_balance(&mut self, address: Address, balance: WholeBalance) -> Result<(), StoreError> {
        let (low, high) = split_balance(balance);
        self.update(address, |info| info.balance = low)?;
        if self.whole_balances.is_some() || could_overflow_u256(low, high) {
            self.whole_balances.get_or_insert_default().set_high(address, high);
        }
        Ok(())
    }

    /// An account's balance at its full width, wei.
    pub fn whole_balance(&mut self, address: Address) -> Result<WholeBalance, StoreError> {
        let low = self.tracked(address)?.now.as_ref().map_or(U256::ZERO, |info| info.balance);
        Ok(join_balance(low, self.high(address)))
    }

    /// Balances above 256 bits, if there may be any.
    pub fn whole_balances_mut(&mut self) -> Option<&mut WholeBalances> {
        self.whole_balances.as_deref_mut()
    }

    /// Balances above 256 bits, which are tracked from now on.
    pub fn track_whole_balances(&mut self) -> &mut WholeBalances {
        self.whole_balances.get_or_insert_default()
    }

    /// Gas refund for the transaction's authorizations whose authorities existed (EIP-7702). Other clients add it to
    /// the refund counter before the first instruction; the EVM adds it only at the end.
    pub const fn first_refund(&self) -> u64 {
        self.first_refund
    }

    /// Sets the refund of [`BlockState::first_refund`], for tracers.
    pub const fn set_first_refund(&mut self, gas: u64) {
        self.first_refund = gas;
    }

    fn high(&self, address: Address) -> u64 {
        self.whole_balances.as_ref().map_or(0, |balances| balances.high(address))
    }

    /// Whether an account exists and is empty.
    fn is_empty(&mut self, address: Address) -> Result<bool, StoreError> {
        let high = self.high(address);
        Ok(high == 0 && self.tracked(address)?.now.as_ref().is_some_and(AccountInfo::is_empty))
    }

    /// Changes an account for a state override; creates an absent account.
    pub fn update(&mut self, address: Address, change: impl FnOnce(&mut AccountInfo)) -> Result<(), StoreError> {
        change(self.tracked(address)?.now.get_or_insert_with(absent_account));
        if let Some(marks) = self.dirty_marks_mut() {
            marks.record(address, Change::Write);
        }
        Ok(())
    }

    /// Returns whether changes of an account are written.
    fn is_written(&self, address: Address) -> bool {
        self.marks.as_ref().is_none_or(|empty| empty.marks.is_written(address))
    }

    /// Sets an account's code.
    pub fn set_code(&mut self, address: Address, code: Bytes) -> Result<(), StoreError> {
        // The code's bytes and its jump table.
        self.hold(code.len() + code.len() / 4)?;
        let code = if code.is_empty() { Bytecode::default() } else { analyse(code) };
        let hash = code.hash_slow();
        self.codes.insert(hash, code);
        self.update(address, |info| {
            info.code_hash = hash;
            info.code = None;
        })
    }

    /// The hash of an account's code; `None` if it has none.
    pub fn code_hash(&mut self, address: Address) -> Result<Option<B256>, StoreError> {
        let info = self.tracked(address)?.now.as_ref();
        Ok(info.map(|info| info.code_hash).filter(|hash| *hash != EMPTY_CODE_HASH))
    }

    /// Deletes all storage of an account.
    pub fn clear_storage(&mut self, address: Address) -> Result<(), StoreError> {
        let account = self.tracked(address)?;
        account.is_wiped = true;
        account.slots.clear();
        Ok(())
    }

    /// Sets a slot.
    pub fn set_storage(&mut self, address: Address, slot: U256, value: U256) -> Result<(), StoreError> {
        self.hold(SLOT_BYTES)?;
        self.tracked(address)?.set(slot, value);
        Ok(())
    }

    /// The current value of a slot.
    pub fn read_slot(&mut self, address: Address, slot: U256) -> Result<U256, StoreError> {
        self.storage(address, slot).map_err(|StateError(error)| error)
    }

    /// Changes a slot on behalf of a block. Unlike an override, the change is compared with the old value.
    pub fn write_slot(&mut self, address: Address, slot: U256, value: U256) -> Result<(), StoreError> {
        self.read_slot(address, slot)?;
        self.set_storage(address, slot, value)
    }

    /// Returns whether the account currently exists.
    pub fn exists(&mut self, address: Address) -> Result<bool, StoreError> {
        Ok(self.tracked(address)?.now.is_some())
    }

    /// Slots of an account that were read or changed since the parent's state, and whether all its other slots are
    /// deleted.
    pub fn known_slots(&self, address: Address) -> (Vec<U256>, bool) {
        let Some(account) = self.accounts.get(&address) else { return (Vec::new(), false) };
        (account.slots.keys().copied().collect(), account.is_wiped)
    }

    /// An account's nonce, 0 if it does not exist.
    pub fn nonce(&mut self, address: Address) -> Result<u64, StoreError> {
        Ok(self.tracked(address)?.now.as_ref().map_or(0, |info| info.nonce))
    }

    /// An account's balance, wei; 2^256 - 1 if it has more.
    pub fn balance(&mut self, address: Address) -> Result<U256, StoreError> {
        let low = self.tracked(address)?.now.as_ref().map_or(U256::ZERO, |info| info.balance);
        Ok(if self.high(address) == 0 { low } else { U256::MAX })
    }

    /// Deletes an account with its storage.
    pub fn remove_account(&mut self, address: Address) -> Result<(), StoreError> {
        self.tracked(address)?.destroy();
        if let Some(balances) = self.whole_balances_mut() {
            balances.set_high(address, 0);
        }
        Ok(())
    }

    /// The account in the parent's state, if it has been read.
    pub fn account_before(&self, address: Address) -> Result<Option<Account>, StoreError> {
        match self.accounts.get(&address) {
            Some(account) => Ok(account.before),
            None => self.parent.account(address),
        }
    }

    /// The differences from the parent's state, ascending by address. The storage roots are still the old ones.
    pub fn changes(&self) -> Vec<AccountChange> {
        let written = self.accounts.iter().filter(|(address, _)| self.is_written(**address));
        let mut changes: Vec<AccountChange> =
            written.filter_map(|(address, account)| account.change(*address, self.high(*address))).collect();
        changes.sort_unstable_by_key(|change| change.address);
        changes
    }

    /// The code that these changes refer to and that the database lacks.
    pub fn new_codes(&self, changes: &[AccountChange]) -> Result<Vec<(B256, Bytes)>, StoreError> {
        let mut codes: Vec<(B256, Bytes)> = Vec::new();
        let mut known = B256Set::default();
        for hash in changes.iter().filter_map(|change| change.account).map(|account| account.code_hash) {
            let Some(code) = self.codes.get(&hash) else { continue };
            let is_known = hash == EMPTY_CODE_HASH || !known.insert(hash);
            if !is_known && self.parent.code(hash)?.is_none() {
                codes.push((hash, code.original_bytes()));
            }
        }
        Ok(codes)
    }

    fn tracked(&mut self, address: Address) -> Result<&mut TrackedAccount, StoreError> {
        use alloy_primitives::map::Entry;
        match self.accounts.entry(address) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                if let Some(memory) = &self.memory {
                    memory.add_state(ACCOUNT_BYTES)?;
                }
                let before = self.parent.account(address)?;
                if let Some(account) = &before
                    && could_overflow_u256(account.balance, account.balance_high)
                {
                    self.whole_balances.get_or_insert_default().set_high(address, account.balance_high);
                }
                if let Some(empty) = &mut self.marks
                    && before.is_some_and(|account| account.balance_high == 0 && account_info(account).is_empty())
                {
                    empty.marks.watch(address);
                }
                Ok(entry.insert(TrackedAccount { before, now: before.map(account_info), ..TrackedAccount::default() }))
            }
        }
    }

    /// Ends a transaction: deletes accounts that are marked and empty, even if the transaction reverted its changes to
    /// them.
    fn remove_marked_empty_accounts(&mut self) {
        let Some(empty) = &mut self.marks else { return };
        for address in empty.marks.watched() {
            let Some(account) = self.accounts.get_mut(&address).filter(|_| empty.marks.is_written(address)) else {
                continue;
            };
            if empty.disappear
                && account.now.as_ref().is_some_and(AccountInfo::is_empty)
                && self.whole_balances.as_ref().is_none_or(|balances| balances.high(address) == 0)
            {
                account.destroy();
            }
            if account.now.is_none() {
                empty.marks.forget(address);
            }
        }
    }

    fn load_code(&self, hash: B256) -> Result<Bytecode, StoreError> {
        if hash == EMPTY_CODE_HASH || hash == CODE_HASH_OF_STORAGE_ALONE {
            return Ok(Bytecode::default());
        }
        let code = match self.codes.get(&hash) {
            Some(code) => code.clone(),
            None => self.code_cache.get_or_load(hash, || {
                self.parent.code(hash)?.ok_or_else(|| StoreError::Corrupt { what: format!("code {hash}") })
            })?,
        };
        let is_ordinary = !self.has_delegations && code.is_eip7702();
        Ok(if is_ordinary { Bytecode::new_legacy(code.original_bytes()) } else { code })
    }

    fn load_block_hash(&self, number: u64) -> Result<B256, StoreError> {
        Ok(self.parent.block_hash(number.into())?.unwrap_or_default())
    }
}

/// Adds the hidden part of an account's balance to the part that the EVM saw.
fn settle(balances: Option<&mut WholeBalances>, address: Address, now: &mut Option<AccountInfo>) {
    match (balances, now) {
        (Some(balances), Some(info)) => info.balance = balances.settle(address, info.balance),
        (Some(balances), None) => balances.set_high(address, 0),
        (None, _) => {}
    }
}

impl Database for BlockState {
    type Error = StateError;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        let is_marked = self.storage_prevents_creation;
        let account = self.tracked(address)?;
        let mut info = account.now.clone();
        let has_storage_alone = is_marked && account.has_storage_alone();
        if let (Some(balances), Some(info)) = (&mut self.whole_balances, &mut info) {
            info.balance = balances.load(address, info.balance);
        }
        if let Some(info) = &mut info
            && has_storage_alone
        {
            info.code_hash = CODE_HASH_OF_STORAGE_ALONE;
        }
        Ok(info)
    }

    fn code_by_hash(&mut self, code_hash: B256) -> Result<Bytecode, StateError> {
        Ok(self.load_code(code_hash)?)
    }

    fn storage(&mut self, address: Address, index: U256) -> Result<U256, StateError> {
        let account = self.tracked(address)?;
        if let Some(slot) = account.slots.get(&index) {
            return Ok(slot.now);
        }
        if account.is_wiped || account.before.is_none() {
            return Ok(U256::ZERO);
        }
        self.hold(SLOT_BYTES)?;
        let value = self.parent.storage(address, B256::from(index))?;
        self.tracked(address)?.slots.insert(index, TrackedSlot { before: value, now: value });
        Ok(value)
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, StateError> {
        Ok(self.load_block_hash(number)?)
    }
}

impl DatabaseRef for BlockState {
    type Error = StateError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        match self.accounts.get(&address) {
            Some(account) => Ok(account.now.clone()),
            None => Ok(self.parent.account(address)?.map(account_info)),
        }
    }

    fn code_by_hash_ref(&self, code_hash: B256) -> Result<Bytecode, StateError> {
        Ok(self.load_code(code_hash)?)
    }

    fn storage_ref(&self, address: Address, index: U256) -> Result<U256, StateError> {
        match self.accounts.get(&address) {
            Some(account) if account.slots.contains_key(&index) => Ok(account.slots[&index].now),
            Some(account) if account.is_wiped => Ok(U256::ZERO),
            _ => Ok(self.parent.storage(address, B256::from(index))?),
        }
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, StateError> {
        Ok(self.load_block_hash(number)?)
    }
}

impl DatabaseCommit for BlockState {
    fn commit(&mut self, changes: AddressMap<EvmAccount>) {
        for (address, mut account) in changes {
            if !account.is_touched() {
                continue;
            }
            // The journal read every account through `basic`, so the entry exists.
            let tracked = self.accounts.entry(address).or_default();
            if account.info.code_hash == CODE_HASH_OF_STORAGE_ALONE {
                account.info.code_hash = EMPTY_CODE_HASH;
            }
            let hash = account.info.code_hash;
            let has_new_code = tracked.now.as_ref().is_none_or(|now| now.code_hash != hash);
            if let Some(code) = account.info.code.take().filter(|code| has_new_code && !code.is_empty()) {
                self.codes.insert(hash, code);
            }
            if let Some(empty) = &mut self.marks {
                // The EVM keeps RIPEMD-160 touched after any revert, even that of a SELFDESTRUCT without enough gas.
                // Marks that the reference would set are already set.
                if address == RIPEMD && tracked.is_as_before(&account) {
                    continue;
                }
                // The journal's `created` differs: before EIP-158 it includes every empty account that was touched.
                if empty.marks.has_created(address) {
                    empty.marks.forget(address);
                }
                empty.marks.record(address, Change::Write);
                if !empty.marks.is_written(address) {
                    tracked.now = Some(AccountInfo { code: None, account_id: None, ..account.info });
                    settle(self.whole_balances.as_deref_mut(), address, &mut tracked.now);
                    continue;
                }
            }
            tracked.apply(account);
            settle(self.whole_balances.as_deref_mut(), address, &mut tracked.now);
        }
        self.remove_marked_empty_accounts();
    }
}

#[cfg(test)]
mod tests;
