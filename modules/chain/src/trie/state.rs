//! The two levels of state: storage tries by account, and the trie of accounts.

use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_rlp::Encodable;
use rayon::prelude::*;
use tenon_api::{
    Account, AccountChange, EMPTY_ROOT_HASH, StoreError, TrieReader, WholeBalance, join_balance, split_balance,
};

use super::change::Change;
use super::nibbles::unpack;
use super::write::update_trie;
use super::{TrieError, TrieUpdate};
use crate::codec::DecodeError;
use crate::codec::rlp::{Reader, write_list};

/// Blocks that change fewer accounts update all their storage tries on the caller's thread.
const PARALLEL_FROM: usize = 8;

/// An account as the value of a leaf. Its balance may have more than 256 bits (`docs/spec/chain.md` 8.1).
pub fn encode_account(account: &Account) -> Vec<u8> {
    let mut out = Vec::with_capacity(112);
    write_list(&mut out, |out| {
        account.nonce.encode(out);
        match account.balance_high {
            0 => account.balance.encode(out),
            high => join_balance(account.balance, high).encode(out),
        }
        account.storage_root.encode(out);
        account.code_hash.encode(out);
    });
    out
}

/// Reads the value of an account's leaf.
///
/// # Errors
/// [`DecodeError`] for anything but the one canonical encoding.
pub fn decode_account(value: &[u8]) -> Result<Account, DecodeError> {
    let mut reader = Reader::new(value);
    let mut items = reader.list("account")?;
    let nonce = items.u64("account nonce")?;
    let (balance, balance_high) = split_balance(WholeBalance::from_be_slice(items.integer("account balance", 40)?));
    let storage_root = items.hash("account storage root")?;
    let code_hash = items.hash("account code hash")?;
    items.finish_list("account", 4)?;
    reader.finish("account")?;
    Ok(Account { nonce, balance, balance_high, code_hash, storage_root })
}

/// A slot as the value of a leaf; `None` for zero, which has no leaf.
pub fn encode_slot_value(value: U256) -> Option<Vec<u8>> {
    (!value.is_zero()).then(|| alloy_rlp::encode(value))
}

/// Reads the value of a slot's leaf.
///
/// # Errors
/// [`DecodeError`] for anything but the one canonical encoding.
pub fn decode_slot_value(value: &[u8]) -> Result<U256, DecodeError> {
    let mut reader = Reader::new(value);
    let value = reader.u256("slot value")?;
    reader.finish("slot value")?;
    Ok(value)
}

/// Applies a block's account changes to the state trie with root `parent_root`, storage tries first, and sets each
/// change's storage root.
///
/// `previous` returns an account's value before the block; only its storage root is used. The work is proportional to
/// the keys touched times their depth; only accounts that are deleted or whose storage is wiped cost a walk through
/// their old storage trie. The order of `changes` does not matter; each address may occur once.
///
/// # Errors
/// [`TrieError`] if a node of the parent's state is missing or corrupt, or the database fails.
pub fn update_state_trie(
    nodes: &dyn TrieReader,
    parent_root: B256,
    changes: &mut [AccountChange],
    previous: &dyn Fn(Address) -> Result<Option<Account>, StoreError>,
) -> Result<TrieUpdate, TrieError> {
    let old_roots = changes
        .iter()
        .map(|change| Ok(previous(change.address)?.map_or(EMPTY_ROOT_HASH, |account| account.storage_root)))
        .collect::<Result<Vec<B256>, StoreError>>()?;
    let owners_and_updates = if changes.len() < PARALLEL_FROM {
        let pairs = changes.iter_mut().zip(&old_roots);
        pairs.map(|(change, old_root)| update_storage(nodes, change, *old_root)).collect::<Result<Vec<_>, _>>()?
    } else {
        let pairs = changes.par_iter_mut().zip(&old_roots);
        pairs.map(|(change, old_root)| update_storage(nodes, change, *old_root)).collect::<Result<Vec<_>, _>>()?
    };

    let mut account_changes = Vec::with_capacity(changes.len());
    let (mut writes, mut superseded) = (Vec::new(), Vec::new());
    for (change, (owner, storage)) in changes.iter().zip(owners_and_updates) {
        account_changes
            .push(Change { key: unpack(owner.as_slice()), value: change.account.as_ref().map(encode_account) });
        if let Some(mut storage) = storage {
            writes.append(&mut storage.writes);
            superseded.append(&mut storage.superseded);
        }
    }
    account_changes.sort_unstable_by(|left, right| left.key.cmp(&right.key));
    account_changes.dedup_by(|later, earlier| later.key == earlier.key);

    let mut update = update_trie(nodes, None, parent_root, &account_changes, false)?;
    writes.append(&mut update.writes);
    superseded.append(&mut update.superseded);
    Ok(TrieUpdate { root: update.root, writes, superseded })
}

/// Updates one account's storage trie and sets its root; returns the trie's owner and changes.
fn update_storage(
    nodes: &dyn TrieReader,
    change: &mut AccountChange,
    old_root: B256,
) -> Result<(B256, Option<TrieUpdate>), TrieError> {
    let owner = keccak256(change.address);
    let Some(account) = &mut change.account else {
        let update = update_trie(nodes, Some(owner), old_root, &[], true)?;
        return Ok((owner, Some(update)));
    };
    if change.slots.is_empty() && !change.storage_wiped {
        account.storage_root = old_root;
        return Ok((owner, None));
    }
    let mut slots: Vec<Change> = change
        .slots
        .iter()
        .map(|slot| Change { key: unpack(keccak256(slot.slot).as_slice()), value: encode_slot_value(slot.value) })
        .collect();
    // The order is reversed and the sort is stable, so that the last of several values for one slot counts.
    slots.reverse();
    slots.sort_by(|left, right| left.key.cmp(&right.key));
    slots.dedup_by(|later, earlier| later.key == earlier.key);
    let update = update_trie(nodes, Some(owner), old_root, &slots, change.storage_wiped)?;
    account.storage_root = update.root;
    Ok((owner, Some(update)))
}
