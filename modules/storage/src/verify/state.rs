//! Checks the head's state: the trie is complete, and the flat records equal it.
//!
//! Their equality follows from three facts: every flat record is in the trie with its value, the trie is complete, and
//! both have the same number of entries.

use std::ops::ControlFlow;

use alloy_primitives::{Address, B256, Bytes, keccak256};
use tenon_api::{EMPTY_CODE_HASH, EMPTY_ROOT_HASH, StoreError, TrieReader};
use tenon_chain::{
    TrieError,
    trie::{TrieItem, decode_account, walk_trie},
};

use super::{Check, Stop, VerifyStage, damage};
use crate::{
    database::cursor_status,
    format::{columns::Column, records},
    read::shared::Shared,
};

/// Number of entries in the tries.
#[derive(Default)]
pub(super) struct Leaves {
    accounts: u64,
    slots: u64,
}

/// Reads nodes past the cache, to check what is stored.
struct Stored<'a>(&'a Shared);

impl TrieReader for Stored<'_> {
    fn node(&self, owner: Option<B256>, path: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
        self.0.stored_node(owner, path, hash)
    }
}

impl Check<'_> {
    /// Walks the state trie of the head and the storage tries of its accounts.
    pub(super) fn trie(&mut self) -> Result<Leaves, Stop> {
        self.start(VerifyStage::Trie, 0)?;
        let mut leaves = Leaves::default();
        let root = self.store.shared.head.load().header.state_root;
        self.walk(None, root, &mut leaves)?;
        self.checkpoints()?;
        Ok(leaves)
    }

    /// Checks that the root of every checkpoint's trie exists. The rest of these tries is compared with the history
    /// when it is read.
    fn checkpoints(&mut self) -> Result<(), Stop> {
        let shared = &self.store.shared;
        let (every, whole_from) = (shared.trie_extent().checkpoint_every, shared.whole_tries_from());
        let first = shared.oldest_state().next_multiple_of(every);
        for number in (first..whole_from).step_by(usize::try_from(every).unwrap_or(usize::MAX)) {
            let what = || format!("trie of checkpoint block {number}");
            let (hash, _) = shared.canonical(number)?.ok_or_else(|| damage(what(), "belongs to no block"))?;
            let header = shared.header(hash)?.ok_or_else(|| damage(what(), "has no header"))?;
            let root = header.state_root;
            if root != EMPTY_ROOT_HASH && shared.stored_node(None, &[], root)?.is_none() {
                return Err(damage(what(), format!("has no root {root}")));
            }
        }
        Ok(())
    }

    fn walk(&mut self, owner: Option<B256>, root: B256, leaves: &mut Leaves) -> Result<(), Stop> {
        let mut stop = None;
        let nodes = Stored(&self.store.shared);
        let walked = walk_trie(&nodes, owner, root, &mut |item| match self.item(owner, item, leaves) {
            Ok(()) => ControlFlow::Continue(()),
            Err(reason) => {
                stop = Some(reason);
                ControlFlow::Break(())
            }
        });
        match (stop, walked) {
            (Some(stop), _) => Err(stop),
            (None, Ok(())) => Ok(()),
            (None, Err(TrieError::Store(error))) => Err(error.into()),
            (None, Err(error)) => Err(damage(trie_name(owner), error.to_string())),
        }
    }

    fn item(&mut self, owner: Option<B256>, item: TrieItem<'_>, leaves: &mut Leaves) -> Result<(), Stop> {
        match (item, owner) {
            (TrieItem::Node { path, hash, rlp }, _) => {
                if keccak256(rlp) != hash {
                    let path = alloy_primitives::hex::encode(path);
                    return Err(damage(trie_name(owner), format!("has a node at {path} that does not hash to {hash}")));
                }
                self.report.trie_nodes += 1;
                self.step(VerifyStage::Trie, self.report.trie_nodes, 0)
            }
            (TrieItem::Leaf { .. }, Some(_)) => {
                leaves.slots += 1;
                Ok(())
            }
            (TrieItem::Leaf { path, value }, None) => {
                leaves.accounts += 1;
                self.account(path, value, leaves)
            }
        }
    }

    /// Checks the code and the storage trie of an account.
    fn account(&mut self, path: &[u8], value: &[u8], leaves: &mut Leaves) -> Result<(), Stop> {
        let what = || format!("account at {} in the state trie", alloy_primitives::hex::encode(path));
        let account = decode_account(value).map_err(|error| damage(what(), error.to_string()))?;
        let owner = hashed_key(path).ok_or_else(|| damage(what(), "has a key of another length"))?;
        if account.code_hash != EMPTY_CODE_HASH {
            let code = self.store.shared.database.get(Column::Codes, account.code_hash.as_slice())?;
            if code.is_none_or(|code| keccak256(&code) != account.code_hash) {
                return Err(damage(what(), format!("has code {}, which is missing or damaged", account.code_hash)));
            }
        }
        self.walk(Some(owner), account.storage_root, leaves)
    }

    /// Compares the latest accounts and slots with the trie.
    pub(super) fn flat_state(&mut self, leaves: Leaves) -> Result<(), Stop> {
        self.flat_accounts()?;
        self.flat_slots()?;
        let counts = [("accounts", self.report.accounts, leaves.accounts), ("slots", self.report.slots, leaves.slots)];
        for (kind, flat, in_trie) in counts {
            if flat != in_trie {
                return Err(damage(format!("latest {kind}"), format!("{flat} records, but the trie has {in_trie}")));
            }
        }
        Ok(())
    }

    fn flat_accounts(&mut self) -> Result<(), Stop> {
        let shared = &self.store.shared;
        let root = shared.head.load().header.state_root;
        let total = shared.database.property(Column::AccountLatest, "rocksdb.estimate-num-keys")?;
        self.start(VerifyStage::FlatState, total)?;
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
        self.start(VerifyStage::FlatState, total)?;
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
                    return Err(damage(what(), format!("is {value}, the trie has another value")));
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

/// The hash spelt by nibbles.
fn hashed_key(nibbles: &[u8]) -> Option<B256> {
    let (pairs, odd) = nibbles.as_chunks::<2>();
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    if odd.is_empty() { B256::try_from(bytes.as_slice()).ok() } else { None }
}

fn trie_name(owner: Option<B256>) -> String {
    owner.map_or_else(|| "state trie".into(), |owner| format!("storage trie of the account with hash {owner}"))
}
