//! Single values of a stored state.

use alloy_primitives::{Address, B256, U256, keccak256};
use tenon_api::{Account, TrieReader};

use super::{
    TrieError,
    nibbles::unpack,
    proof::damaged_leaf,
    source::Source,
    state::{decode_account, decode_slot_value},
};

/// An account of the state with this root; `None` if there is no such account.
///
/// # Errors
/// [`TrieError`] if a node is missing (the state was pruned, or never stored) or corrupt, or the database fails.
pub fn read_account(nodes: &dyn TrieReader, state_root: B256, address: Address) -> Result<Option<Account>, TrieError> {
    let key = keccak256(address);
    let (value, _) = Source { nodes, owner: None }.prove(state_root, &unpack(key.as_slice()))?;
    let account = value.map(|value| decode_account(&value)).transpose();
    account.map_err(|source| damaged_leaf(None, key, source))
}

/// A slot of an account whose storage has this root; zero when unset.
///
/// # Errors
/// See [`read_account`].
pub fn read_slot(nodes: &dyn TrieReader, storage_root: B256, address: Address, slot: B256) -> Result<U256, TrieError> {
    let (owner, key) = (keccak256(address), keccak256(slot));
    let (value, _) = Source { nodes, owner: Some(owner) }.prove(storage_root, &unpack(key.as_slice()))?;
    let value = value.map(|value| decode_slot_value(&value)).transpose();
    value.map(Option::unwrap_or_default).map_err(|source| damaged_leaf(Some(owner), key, source))
}
