//! The head's state: the trie is whole, and the flat records say the same.
//!
//! That both say the same follows from three facts: every flat record is in the trie with its value, the trie is
//! whole, and both have the same number of entries.

use alloy_primitives::{Address, B256, keccak256};
use tenon_api::{EMPTY_CODE_HASH, EMPTY_ROOT_HASH};

use super::{
    Check, Stop, VerifyStage, damage,
    node::{self, Child, Node},
};
use crate::{columns::Column, keys, records, shared::cursor_status};

/// How many entries the tries have.
#[derive(Default)]
pub(super) struct Leaves {
    accounts: u64,
    slots: u64,
}

/// A trie node to be looked at.
struct Visit<'a> {
    owner: Option<B256>,
    path: Vec<u8>,
    child: Child<'a>,
}

impl Check<'_> {
    /// Walks the state trie of the head and the storage tries of its accounts.
    pub(super) fn trie(&mut self) -> Result<Leaves, Stop> {
        let mut leaves = Leaves::default();
        let root = self.store.shared.head.load().header.state_root;
        self.subtree(Visit { owner: None, path: Vec::new(), child: Child::Hash(root) }, &mut leaves)?;
        Ok(leaves)
    }

    /// Depth is bounded by the 64 nibbles of a key, twice: a storage trie hangs below an account.
    fn subtree(&mut self, visit: Visit<'_>, leaves: &mut Leaves) -> Result<(), Stop> {
        let Visit { owner, path, child } = visit;
        if path.is_empty() && matches!(child, Child::Hash(EMPTY_ROOT_HASH)) {
            return Ok(());
        }
        let stored;
        let rlp = match child {
            Child::Embedded(rlp) => rlp,
            Child::Hash(hash) => {
                stored = self.stored_node(owner, &path, hash)?;
                stored.as_slice()
            }
        };
        let what = || name(owner, &path);
        match node::parse(rlp).ok_or_else(|| damage(what(), "does not decode"))? {
            Node::Branch(children) => {
                for (nibble, child) in children {
                    let path = [path.as_slice(), &[nibble]].concat();
                    self.subtree(Visit { owner, path, child }, leaves)?;
                }
                Ok(())
            }
            Node::Extension(nibbles, child) => {
                let path = [path.as_slice(), &nibbles].concat();
                self.subtree(Visit { owner, path, child }, leaves)
            }
            Node::Leaf(nibbles, value) => {
                let key = [path.as_slice(), &nibbles].concat();
                let key = hashed_key(&key).ok_or_else(|| damage(what(), "has a key of another length"))?;
                self.leaf(owner, key, value, leaves)
            }
        }
    }

    /// Reads a node past the cache and checks that it is what its hash says.
    fn stored_node(&mut self, owner: Option<B256>, path: &[u8], hash: B256) -> Result<Vec<u8>, Stop> {
        let record = self.store.shared.database.get(Column::Trie, &keys::trie_node(owner, path, hash))?;
        let rlp = record.as_deref().and_then(records::decode_latest).map(|(_, rlp)| rlp.to_vec());
        let rlp = rlp.ok_or_else(|| damage(name(owner, path), format!("({hash}) is missing")))?;
        if keccak256(&rlp) != hash {
            return Err(damage(name(owner, path), format!("does not hash to {hash}")));
        }
        self.report.trie_nodes += 1;
        self.step(VerifyStage::Trie, self.report.trie_nodes, 0)?;
        Ok(rlp)
    }

    fn leaf(&mut self, owner: Option<B256>, key: B256, value: &[u8], leaves: &mut Leaves) -> Result<(), Stop> {
        if owner.is_some() {
            leaves.slots += 1;
            return Ok(());
        }
        leaves.accounts += 1;
        let what = || format!("account with hash {key} in the state trie");
        let (storage_root, code_hash) = node::account_leaf(value).ok_or_else(|| damage(what(), "does not decode"))?;
        if code_hash != EMPTY_CODE_HASH {
            let code = self.store.shared.database.get(Column::Codes, code_hash.as_slice())?;
            if code.is_none_or(|code| keccak256(&code) != code_hash) {
                return Err(damage(what(), format!("has code {code_hash}, which is missing or damaged")));
            }
        }
        self.subtree(Visit { owner: Some(key), path: Vec::new(), child: Child::Hash(storage_root) }, leaves)
    }

    /// Compares the latest accounts and slots with the trie.
    pub(super) fn flat_state(&mut self, leaves: Leaves) -> Result<(), Stop> {
        self.flat_accounts()?;
        self.flat_slots()?;
        let counts = [("accounts", self.report.accounts, leaves.accounts), ("slots", self.report.slots, leaves.slots)];
        for (kind, flat, in_trie) in counts {
            if flat != in_trie {
                return Err(damage(format!("latest {kind}"), format!("are {flat}, the trie has {in_trie}")));
            }
        }
        Ok(())
    }

    fn flat_accounts(&mut self) -> Result<(), Stop> {
        let shared = &self.store.shared;
        let root = shared.head.load().header.state_root;
        let total = shared.database.property(Column::AccountLatest, "rocksdb.estimate-num-keys")?;
        let mut cursor = shared.database.range_cursor(Column::AccountLatest, &[], None)?;
        while let Some((key, record)) = cursor.item() {
            let address =
                Address::try_from(key).map_err(|_| damage("latest accounts", "have a key of another length"))?;
            let what = || format!("latest account {address}");
            let account = records::decode_latest(record).and_then(|(_, value)| records::decode_account(value));
            if let Some(account) = account.ok_or_else(|| damage(what(), "does not decode"))? {
                let proof = tenon_chain::prove(&**shared, root, address, &[]);
                let proof = proof.map_err(|error| damage(what(), error.to_string()))?;
                if proof.account != account {
                    return Err(damage(what(), format!("is {account:?}, the trie says {:?}", proof.account)));
                }
                self.report.accounts += 1;
                self.step(VerifyStage::FlatState, self.report.accounts, total)?;
            }
            cursor.next();
        }
        Ok(cursor_status(&cursor)?)
    }

    fn flat_slots(&mut self) -> Result<(), Stop> {
        let shared = &self.store.shared;
        let root = shared.head.load().header.state_root;
        let total = shared.database.property(Column::SlotLatest, "rocksdb.estimate-num-keys")?;
        let mut cursor = shared.database.range_cursor(Column::SlotLatest, &[], None)?;
        while let Some((key, record)) = cursor.item() {
            let (address, slot) =
                slot_key(key).ok_or_else(|| damage("latest slots", "have a key of another length"))?;
            let what = || format!("latest slot {slot} of {address}");
            let value = records::decode_latest(record).and_then(|(_, value)| records::decode_slot(value));
            let value = value.ok_or_else(|| damage(what(), "does not decode"))?;
            if !value.is_zero() {
                let proof = tenon_chain::prove(&**shared, root, address, &[slot]);
                let proof = proof.map_err(|error| damage(what(), error.to_string()))?;
                if proof.storage.first().is_none_or(|proof| proof.value != value) {
                    return Err(damage(what(), format!("is {value}, the trie says otherwise")));
                }
                self.report.slots += 1;
                self.step(VerifyStage::FlatState, self.report.slots, total)?;
            }
            cursor.next();
        }
        Ok(cursor_status(&cursor)?)
    }
}

fn slot_key(key: &[u8]) -> Option<(Address, B256)> {
    let (address, slot) = key.split_at_checked(20)?;
    Some((Address::from_slice(address), B256::try_from(slot).ok()?))
}

/// Nibbles to the hash that they spell.
fn hashed_key(nibbles: &[u8]) -> Option<B256> {
    let (pairs, odd) = nibbles.as_chunks::<2>();
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    if odd.is_empty() { B256::try_from(bytes.as_slice()).ok() } else { None }
}

fn name(owner: Option<B256>, path: &[u8]) -> String {
    let path: String = path.iter().map(|nibble| char::from_digit(u32::from(*nibble), 16).unwrap_or('?')).collect();
    match owner {
        None => format!("state trie node at {path:?}"),
        Some(owner) => format!("storage trie node at {path:?} of the account with hash {owner}"),
    }
}
