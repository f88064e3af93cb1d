//! A main state and a database in memory, for vectors and the fuzzer.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, U256};
use parking_lot::Mutex;
use tenon_api::{StoreError, TriePosition, TrieReader, WholeBalance};
use tenon_chain::TrieUpdate;

use super::ledger::{DecimalsError, MainState};

/// A main state in memory.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) balances: BTreeMap<Address, WholeBalance>,
    pub(super) slots: BTreeMap<(Address, U256), U256>,
    pub(super) decimals: BTreeMap<Address, u8>,
}

impl MainState for Memory {
    fn balance(&mut self, account: Address) -> Result<WholeBalance, StoreError> {
        Ok(self.balances.get(&account).copied().unwrap_or_default())
    }

    fn set_balance(&mut self, account: Address, balance: WholeBalance) -> Result<(), StoreError> {
        self.balances.insert(account, balance);
        Ok(())
    }

    fn slot(&mut self, contract: Address, slot: U256) -> Result<U256, StoreError> {
        Ok(self.slots.get(&(contract, slot)).copied().unwrap_or_default())
    }

    fn set_slot(&mut self, contract: Address, slot: U256, value: U256) -> Result<(), StoreError> {
        self.slots.insert((contract, slot), value);
        Ok(())
    }

    fn exists(&mut self, account: Address) -> Result<bool, StoreError> {
        Ok(self.decimals.contains_key(&account))
    }

    fn decimals(&mut self, token: Address) -> Result<Option<u8>, DecimalsError> {
        Ok(self.decimals.get(&token).copied())
    }
}

/// Trie nodes by position and hash, as in the database.
#[derive(Default)]
pub(super) struct Nodes(Mutex<BTreeMap<(TriePosition, B256), Bytes>>);

impl Nodes {
    /// Adds a block's nodes, and removes those that it superseded; returns whether all of the latter existed.
    #[must_use]
    pub(super) fn apply(&self, update: TrieUpdate) -> bool {
        let mut kept = self.0.lock();
        // No trie needs superseded nodes again, neither the updated one nor another.
        let were_there = update.superseded.iter().all(|place| kept.remove(place).is_some());
        kept.extend(update.writes.into_iter().map(|node| ((node.position, node.hash), node.rlp)));
        were_there
    }

    /// Number of nodes.
    #[cfg(feature = "fuzzing")]
    pub(super) fn count(&self) -> usize {
        self.0.lock().len()
    }
}

impl TrieReader for Nodes {
    fn node(&self, owner: Option<B256>, path: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
        Ok(self.0.lock().get(&(TriePosition { owner, path: path.to_vec() }, hash)).cloned())
    }
}
