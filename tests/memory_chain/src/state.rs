//! A state that a test writes down.

use std::collections::HashMap;

use alloy_primitives::keccak256;
use tenon_api::{Account, Address, B256, BlockNumber, Bytes, EMPTY_CODE_HASH, StateReader, StoreError, U256};

/// Accounts, slots and codes. It has no hash of a block.
#[derive(Clone, Default)]
pub struct FixedState {
    /// The accounts that exist.
    pub accounts: HashMap<Address, Account>,
    /// Values of slots, also of accounts that do not exist.
    pub slots: HashMap<(Address, B256), U256>,
    /// Codes by their hash.
    pub codes: HashMap<B256, Bytes>,
    /// An account whose slots cannot be read, as with a damaged disk.
    pub unreadable: Option<Address>,
}

impl FixedState {
    /// Adds or replaces an account and its code.
    #[must_use]
    pub fn with(mut self, address: Address, nonce: u64, balance: U256, code: &[u8]) -> Self {
        let code_hash = keccak256(code);
        self.codes.insert(code_hash, Bytes::copy_from_slice(code));
        self.accounts.insert(address, Account { nonce, balance, code_hash, ..Account::default() });
        self
    }
}

impl StateReader for FixedState {
    fn account(&self, address: Address) -> Result<Option<Account>, StoreError> {
        Ok(self.accounts.get(&address).copied())
    }

    fn storage(&self, address: Address, slot: B256) -> Result<U256, StoreError> {
        if self.unreadable == Some(address) {
            return Err(StoreError::Engine("input/output error".to_owned()));
        }
        Ok(self.slots.get(&(address, slot)).copied().unwrap_or_default())
    }

    fn code(&self, hash: B256) -> Result<Option<Bytes>, StoreError> {
        Ok(if hash == EMPTY_CODE_HASH { Some(Bytes::new()) } else { self.codes.get(&hash).cloned() })
    }

    fn block_hash(&self, _: BlockNumber) -> Result<Option<B256>, StoreError> {
        Ok(None)
    }
}
