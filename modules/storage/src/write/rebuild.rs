//! Completes a trie that lacks nodes, from the flat history.
//!
//! Format 1 did not record at which heights a block had left the chain. Thinning such a folder may therefore have taken
//! a checkpoint's node for a newer one, and removed it. When the state becomes the head's again, its trie must be
//! complete. Tries that lack a node are rebuilt from the accounts and slots of the height, in ascending order of hashed
//! keys. Each batch of keys then replaces only nodes of the previous batch, and no unneeded node is ever stored. Memory
//! is bounded by [`MAX_KEYS`] for a state of any size; a larger trie costs one more pass over the flat records for
//! every [`MAX_KEYS`] keys.

use std::{
    collections::{BTreeMap, BinaryHeap, HashMap, HashSet},
    ops::ControlFlow,
};

use alloy_primitives::{Address, B256, Bytes, keccak256};
use tenon_api::{EMPTY_ROOT_HASH, StoreError, TrieNodeWrite, TrieReader};
use tenon_chain::{
    TrieError,
    trie::{encode_account, encode_slot_value, update_owned_trie, walk_trie},
};

use crate::{
    database::cursor_status,
    error::corrupt,
    format::{columns::Column, keys, records},
    read::{
        old_trie::state_root,
        shared::Shared,
        state::{ACCOUNTS, SLOTS, value_at},
    },
    write::missing_nodes::put_missing,
};

/// Keys held in memory at a time, about 50 MB.
const MAX_KEYS: usize = 500_000;
/// Keys applied to the trie at a time.
const KEYS_PER_BATCH: usize = 10_000;
/// Height in the records of rebuilt nodes: lower than any checkpoint, so that thinning never removes them.
const CREATED: u64 = 0;

/// The flat records of one trie.
#[derive(Clone, Copy)]
enum Flat {
    Accounts,
    Slots(Address),
}

impl Flat {
    fn owner(self) -> Option<B256> {
        match self {
            Self::Accounts => None,
            Self::Slots(address) => Some(keccak256(address)),
        }
    }

    /// The column of latest records, with the bounds of their keys.
    fn range(self) -> (Column, Vec<u8>, Option<Vec<u8>>) {
        match self {
            Self::Accounts => (Column::AccountLatest, Vec::new(), None),
            Self::Slots(address) => {
                let first = keys::slot(address, B256::ZERO).to_vec();
                // One byte longer than the last key, to include it.
                let end = [&keys::slot(address, B256::repeat_byte(0xff))[..], &[0]].concat();
                (Column::SlotLatest, first, Some(end))
            }
        }
    }

    /// The part of a record's key that the trie hashes: the address, or the slot.
    fn trie_key(self, key: &[u8]) -> Option<B256> {
        match self {
            Self::Accounts => Address::try_from(key).ok().map(|address| address.into_word()),
            Self::Slots(_) => key.get(20..).and_then(|slot| B256::try_from(slot).ok()),
        }
    }

    fn hash(self, key: B256) -> B256 {
        match self {
            Self::Accounts => keccak256(Address::from_word(key)),
            Self::Slots(_) => keccak256(key),
        }
    }

    /// The value in the trie at a height; `None` if the key is absent.
    fn value(self, shared: &Shared, key: B256, number: u64) -> Result<Option<Vec<u8>>, StoreError> {
        match self {
            Self::Accounts => {
                let address = Address::from_word(key);
                let account = value_at(shared, ACCOUNTS, address.as_slice(), number, records::decode_account)?;
                Ok(account.as_ref().map(encode_account))
            }
            Self::Slots(address) => {
                let value = value_at(shared, SLOTS, &keys::slot(address, key), number, records::decode_slot)?;
                Ok(encode_slot_value(value))
            }
        }
    }
}

/// Reads stored nodes without the cache, to check what a restart would find.
struct Stored<'a>(&'a Shared);

impl TrieReader for Stored<'_> {
    fn node(&self, owner: Option<B256>, path: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
        self.0.stored_node(owner, path, hash)
    }
}

/// Walks all tries of a height, and rebuilds those that lack a node. Returns how many were rebuilt.
///
/// # Errors
/// [`StoreError::Corrupt`] if the flat history does not give the header's root.
pub(crate) fn complete_tries(shared: &Shared, number: u64) -> Result<u64, StoreError> {
    let mut rebuilt = u64::from(complete_trie(shared, Flat::Accounts, state_root(shared, number)?, number)?);
    let mut cursor = shared.database.range_cursor(Column::AccountLatest, &[], None)?;
    while let Some(key) = cursor.key() {
        let address = Address::try_from(key).map_err(|_| corrupt("key of an account"))?;
        let account = value_at(shared, ACCOUNTS, address.as_slice(), number, records::decode_account)?;
        if let Some(account) = account {
            rebuilt += u64::from(complete_trie(shared, Flat::Slots(address), account.storage_root, number)?);
        }
        cursor.next();
    }
    cursor_status(&cursor)?;
    Ok(rebuilt)
}

/// Returns whether the trie had to be rebuilt.
fn complete_trie(shared: &Shared, flat: Flat, root: B256, number: u64) -> Result<bool, StoreError> {
    if root == EMPTY_ROOT_HASH {
        return Ok(false);
    }
    match walk_trie(&Stored(shared), flat.owner(), root, &mut |_| ControlFlow::Continue(())) {
        Ok(()) => return Ok(false),
        Err(TrieError::Store(error)) => return Err(error),
        Err(error) => tracing::warn!(number, %error, "trie is incomplete; computing it from the flat history"),
    }
    rebuild(shared, flat, root, number)?;
    Ok(true)
}

/// A trie that grows in ascending order of its keys.
struct TrieBuilder<'a> {
    shared: &'a Shared,
    owner: Option<B256>,
    root: B256,
    /// Nodes of the last batch, which the next may replace: not stored yet.
    newest: Vec<TrieNodeWrite>,
    by_hash: HashMap<B256, Bytes>,
}

impl TrieReader for TrieBuilder<'_> {
    fn node(&self, owner: Option<B256>, path: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
        match self.by_hash.get(&hash) {
            Some(node) => Ok(Some(node.clone())),
            None => self.shared.stored_node(owner, path, hash),
        }
    }
}

impl TrieBuilder<'_> {
    fn add(&mut self, leaves: &BTreeMap<Vec<u8>, Option<Vec<u8>>>) -> Result<(), StoreError> {
        let update = update_owned_trie(self, self.owner, self.root, leaves).map_err(|error| match error {
            TrieError::Store(error) => error,
            error => corrupt(error.to_string()),
        })?;
        let replaced: HashSet<_> = update.superseded.into_iter().collect();
        self.newest.retain(|node| !replaced.contains(&(node.position.clone(), node.hash)));
        self.store_newest()?;
        self.root = update.root;
        self.by_hash = update.writes.iter().map(|node| (node.hash, node.rlp.clone())).collect();
        self.newest = update.writes;
        Ok(())
    }

    fn store_newest(&mut self) -> Result<(), StoreError> {
        let mut batch = self.shared.database.batch();
        for node in self.newest.drain(..) {
            put_missing(self.shared, &mut batch, &node, CREATED)?;
        }
        batch.write(false)
    }
}

/// Builds a trie from the flat records and stores its nodes that are not stored.
fn rebuild(shared: &Shared, flat: Flat, root: B256, number: u64) -> Result<(), StoreError> {
    let owner = flat.owner();
    let mut trie = TrieBuilder { shared, owner, root: EMPTY_ROOT_HASH, newest: Vec::new(), by_hash: HashMap::new() };
    let mut after = None;
    loop {
        let keys = next_keys(shared, flat, after, MAX_KEYS)?;
        for chunk in keys.chunks(KEYS_PER_BATCH) {
            let mut leaves = BTreeMap::new();
            for (hash, key) in chunk {
                if let Some(value) = flat.value(shared, *key, number)? {
                    leaves.insert(hash.to_vec(), Some(value));
                }
            }
            if !leaves.is_empty() {
                trie.add(&leaves)?;
            }
        }
        after = keys.last().map(|(hash, _)| *hash);
        if keys.len() < MAX_KEYS {
            break;
        }
    }
    if trie.root != root {
        let computed = trie.root;
        return Err(corrupt(format!("flat state of block {number}: gives root {computed} instead of {root}")));
    }
    trie.store_newest()
}

/// The `limit` keys with the lowest hashes above `after`, in ascending order of hashes.
fn next_keys(shared: &Shared, flat: Flat, after: Option<B256>, limit: usize) -> Result<Vec<(B256, B256)>, StoreError> {
    let (column, first, end) = flat.range();
    let mut lowest = BinaryHeap::new();
    let mut cursor = shared.database.range_cursor(column, &first, end.as_deref())?;
    while let Some(key) = cursor.key() {
        let key = flat.trie_key(key).ok_or_else(|| corrupt(format!("key in {}", column.name())))?;
        let hash = flat.hash(key);
        if after.is_none_or(|after| hash > after) {
            lowest.push((hash, key));
            if lowest.len() > limit {
                lowest.pop();
            }
        }
        cursor.next();
    }
    cursor_status(&cursor)?;
    Ok(lowest.into_sorted_vec())
}
