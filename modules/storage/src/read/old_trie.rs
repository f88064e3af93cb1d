//! Tries of states that have left the window, computed from the flat history and a trie that is kept.
//!
//! The base is the checkpoint or the newest state nearest to the height. The keys changed between base and height come
//! from the blocks' lists of changes, and their values at the height from the history. Applied to the base's trie as
//! one batch, they give the nodes that the height's trie does not share with the base. The trie of accounts needs no
//! storage tries for that, because accounts are stored with their storage roots; a storage trie is computed when one of
//! its nodes is missing. Every computed root is compared with the expected one.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, OnceLock},
};

use alloy_primitives::{Address, B256, Bytes, keccak256};
use parking_lot::Mutex;
use tenon_api::{Allowance, EMPTY_ROOT_HASH, SealedHeader, StoreError, TrieNodeWrite, TrieReader};
use tenon_chain::{
    TrieError, TrieUpdate,
    trie::{encode_account, encode_slot_value, update_owned_trie},
};

use crate::{
    database::cursor_status,
    error::corrupt,
    format::{columns::Column, keys, records},
    read::{
        shared::Shared,
        state::{ACCOUNTS, SLOTS, value_at},
    },
};

/// Approximate memory of a changed key in addition to its value, bytes.
const KEY_BYTES: usize = 160;
/// Approximate memory of a computed node in addition to its RLP, bytes.
const NODE_BYTES: usize = 128;
/// Number of keys read between two checks of the caller's deadline.
const KEYS_PER_CHECK: usize = 256;
/// Maximum number of bases that are tried: more than one only if nodes of the nearest base are missing.
const MAX_BASES: usize = 4;

/// The trie of a canonical block that may have left the window.
pub(crate) struct OldTrie {
    shared: Arc<Shared>,
    number: u64,
    caller: Arc<dyn Allowance>,
    /// Heights to compute from, the nearest first.
    bases: OnceLock<Vec<u64>>,
    /// Locked for a look-up or an insertion only, never while nodes are computed: that waits for a thread pool whose
    /// jobs may take this lock.
    computed: Mutex<Computed>,
}

#[derive(Default)]
struct Computed {
    /// The changes since each base that was read, in the order of use.
    spans: Vec<Arc<Span>>,
    /// Number of bases from which a trie was computed, by the trie's owner. More than one if a node was still missing
    /// after the first.
    tried: BTreeMap<Option<B256>, usize>,
    nodes: HashMap<B256, Bytes>,
}

/// The changes between a height and its base.
pub(crate) struct Span {
    number: u64,
    base: u64,
    /// Changed accounts with their changed slots, by the hash of their address.
    accounts: BTreeMap<B256, (Address, BTreeSet<B256>)>,
}

/// Reads stored nodes. Looks them up in the cache, but adds none to it: the cache serves the newest states.
struct StoredNodes<'a> {
    shared: &'a Shared,
    caller: &'a dyn Allowance,
}

impl TrieReader for StoredNodes<'_> {
    fn node(&self, owner: Option<B256>, path: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
        if self.caller.should_stop() {
            return Err(StoreError::Stopped);
        }
        match self.shared.trie_nodes.get(&hash) {
            Some(node) => Ok(Some(node)),
            None => self.shared.stored_node(owner, path, hash),
        }
    }
}

impl OldTrie {
    /// The trie of a canonical block. Nothing is computed until a node is missing.
    pub(crate) fn of(shared: &Arc<Shared>, block: &SealedHeader, caller: Arc<dyn Allowance>) -> Self {
        let (bases, computed) = (OnceLock::new(), Mutex::default());
        Self { shared: Arc::clone(shared), number: block.number, caller, bases, computed }
    }

    /// Computes the nodes of one trie from the nearest base that was not used for it yet, and skips bases that lack
    /// nodes. Returns whether there was such a base.
    fn compute(&self, owner: Option<B256>) -> Result<bool, StoreError> {
        let bases = self.bases.get_or_init(|| bases(&self.shared, self.number));
        let tried = self.computed.lock().tried.get(&owner).copied().unwrap_or_default();
        let mut unusable = None;
        for (index, base) in bases.iter().enumerate().skip(tried) {
            match self.compute_from(*base, owner) {
                Err(StoreError::Corrupt { what }) => {
                    tracing::debug!(number = self.number, base, what, "trie not computed from this base");
                    unusable = Some(StoreError::Corrupt { what });
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    let mut computed = self.computed.lock();
                    let tried = computed.tried.entry(owner).or_default();
                    *tried = (*tried).max(index + 1);
                    return Ok(true);
                }
            }
        }
        match unusable {
            Some(error) if tried == 0 => Err(error),
            _ => Ok(false),
        }
    }

    fn compute_from(&self, base: u64, owner: Option<B256>) -> Result<(), StoreError> {
        let known = self.computed.lock().spans.iter().find(|span| span.base == base).cloned();
        let span = match known {
            Some(span) => span,
            None => Arc::new(Span::read(&self.shared, self.number, base, &*self.caller)?),
        };
        let update = span.trie(&self.shared, owner, &*self.caller).map_err(|error| unreadable(error, self.number))?;
        let weight = |node: &TrieNodeWrite| NODE_BYTES + node.rlp.len();
        self.caller.take(update.iter().map(weight).sum())?;
        let mut computed = self.computed.lock();
        if computed.spans.iter().all(|known| known.base != base) {
            computed.spans.push(span);
        }
        computed.nodes.extend(update.into_iter().map(|node| (node.hash, node.rlp)));
        Ok(())
    }
}

impl TrieReader for OldTrie {
    fn node(&self, owner: Option<B256>, path: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
        if let Some(node) = self.computed.lock().nodes.get(&hash) {
            return Ok(Some(node.clone()));
        }
        if let Some(node) = self.shared.node(owner, path, hash)? {
            return Ok(Some(node));
        }
        if self.number >= self.shared.whole_tries_from() {
            return Ok(None);
        }
        // A folder created with format 1 may lack nodes that the height shares with the nearest base; another base
        // shares different ones (`write::rebuild`).
        while self.compute(owner)? {
            if let Some(node) = self.computed.lock().nodes.get(&hash) {
                return Ok(Some(node.clone()));
            }
        }
        Ok(None)
    }
}

/// Heights whose tries are kept, the nearest to `number` first.
fn bases(shared: &Shared, number: u64) -> Vec<u64> {
    let (head, oldest, extent) = (shared.head.load().header.number, shared.oldest_state(), shared.trie_extent());
    let every = extent.checkpoint_every;
    let below = number - number % every;
    // Above the edge of the window, because the edge can move while its trie is read.
    let edge = shared.whole_tries_from().min(head);
    let in_window = edge + (head - edge) / 2;
    let checkpoints = [Some(below), below.checked_add(every), below.checked_sub(every), below.checked_add(2 * every)];
    let mut bases: Vec<u64> = checkpoints.into_iter().flatten().filter(|base| (oldest..=edge).contains(base)).collect();
    bases.push(in_window);
    bases.sort_by_key(|base| base.abs_diff(number));
    bases.truncate(MAX_BASES);
    bases
}

/// The checkpoint from which a trie can be computed without the blocks above it.
pub(crate) fn base_below(shared: &Shared, number: u64) -> Option<u64> {
    let base = number - number % shared.trie_extent().checkpoint_every;
    (base >= shared.oldest_state()).then_some(base)
}

/// Converts missing and damaged nodes into a corruption error, after which another base is tried.
fn unreadable(error: TrieError, number: u64) -> StoreError {
    match error {
        TrieError::Store(error) => error,
        error => corrupt(format!("trie of block {number}: {error}")),
    }
}

impl Span {
    /// Reads what the blocks between a height and its base changed.
    pub(crate) fn read(shared: &Shared, number: u64, base: u64, caller: &dyn Allowance) -> Result<Self, StoreError> {
        let (from, to) = (number.min(base) + 1, number.max(base));
        let mut by_address: HashMap<Address, BTreeSet<B256>> = HashMap::new();
        let end = keys::number(to.saturating_add(1));
        let mut cursor = shared.database.range_cursor(Column::Changes, &keys::number(from), Some(&end))?;
        for height in from..=to {
            if caller.should_stop() {
                return Err(StoreError::Stopped);
            }
            let missing = || corrupt(format!("changes of block {height}"));
            let (key, record) = cursor.item().ok_or_else(missing)?;
            let changes =
                records::decode_changes(record).filter(|_| key == keys::number(height)).ok_or_else(missing)?;
            let mut added = 0;
            for address in changes.accounts {
                by_address.entry(address).or_insert_with(|| {
                    added += 1;
                    BTreeSet::new()
                });
            }
            for (address, slots) in changes.slots {
                let known = by_address.entry(address).or_default();
                let before = known.len();
                known.extend(slots);
                added += known.len() - before;
            }
            caller.take(added * KEY_BYTES)?;
            cursor.next();
        }
        cursor_status(&cursor)?;
        let hashed = by_address.into_iter().map(|(address, slots)| (keccak256(address), (address, slots)));
        Ok(Self { number, base, accounts: hashed.collect() })
    }

    /// The hashes of the changed accounts, whose storage tries may differ from the base's.
    pub(crate) fn owners(&self) -> impl Iterator<Item = B256> {
        self.accounts.iter().filter(|(_, (_, slots))| !slots.is_empty()).map(|(owner, _)| *owner)
    }

    /// The nodes of one trie at the height that it does not share with the base.
    pub(crate) fn trie(
        &self,
        shared: &Shared,
        owner: Option<B256>,
        caller: &dyn Allowance,
    ) -> Result<Vec<TrieNodeWrite>, TrieError> {
        match owner {
            None => self.trie_of_accounts(shared, caller),
            Some(owner) => self.trie_of_slots(shared, owner, caller),
        }
    }

    fn trie_of_accounts(&self, shared: &Shared, caller: &dyn Allowance) -> Result<Vec<TrieNodeWrite>, TrieError> {
        let mut changes = BTreeMap::new();
        for (count, (owner, (address, _))) in self.accounts.iter().enumerate() {
            if count.is_multiple_of(KEYS_PER_CHECK) && caller.should_stop() {
                return Err(StoreError::Stopped.into());
            }
            let account = value_at(shared, ACCOUNTS, address.as_slice(), self.number, records::decode_account)?;
            changes.insert(owner.to_vec(), account.as_ref().map(encode_account));
        }
        let (from, to) = (state_root(shared, self.base)?, state_root(shared, self.number)?);
        let nodes = StoredNodes { shared, caller };
        self.checked(update_owned_trie(&nodes, None, from, &changes)?, to)
    }

    fn trie_of_slots(
        &self,
        shared: &Shared,
        owner: B256,
        caller: &dyn Allowance,
    ) -> Result<Vec<TrieNodeWrite>, TrieError> {
        let Some((address, slots)) = self.accounts.get(&owner) else { return Ok(Vec::new()) };
        let root_at = |number| {
            let account = value_at(shared, ACCOUNTS, address.as_slice(), number, records::decode_account)?;
            Ok::<_, StoreError>(account.map_or(EMPTY_ROOT_HASH, |account| account.storage_root))
        };
        let (from, to) = (root_at(self.base)?, root_at(self.number)?);
        if from == to {
            return Ok(Vec::new());
        }
        let mut changes = BTreeMap::new();
        for (count, slot) in slots.iter().enumerate() {
            if count.is_multiple_of(KEYS_PER_CHECK) && caller.should_stop() {
                return Err(StoreError::Stopped.into());
            }
            let value = value_at(shared, SLOTS, &keys::slot(*address, *slot), self.number, records::decode_slot)?;
            changes.insert(keccak256(slot).to_vec(), encode_slot_value(value));
        }
        let nodes = StoredNodes { shared, caller };
        self.checked(update_owned_trie(&nodes, Some(owner), from, &changes)?, to)
    }

    /// The nodes of a trie, after a comparison of its root with the expected one.
    fn checked(&self, update: TrieUpdate, root: B256) -> Result<Vec<TrieNodeWrite>, TrieError> {
        if update.root == root {
            return Ok(update.writes);
        }
        let (number, base, computed) = (self.number, self.base, update.root);
        Err(corrupt(format!("history between blocks {base} and {number}: gives root {computed} instead of {root}"))
            .into())
    }
}

/// The state root of a canonical block.
pub(crate) fn state_root(shared: &Shared, number: u64) -> Result<B256, StoreError> {
    let unknown = || StoreError::UnknownBlock { what: number.to_string() };
    let (hash, _) = shared.canonical(number)?.ok_or_else(unknown)?;
    Ok(shared.header(hash)?.ok_or_else(unknown)?.state_root)
}
