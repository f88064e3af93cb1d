//! The state after simulated blocks: their changes, above the state of a block of the chain.

use std::sync::Arc;

use alloy_primitives::{
    Address, B256, Bytes, U256,
    map::{AddressMap, B256Map},
};
use tenon_api::{Account, AccountChange, BlockNumber, StateReader, StoreError, TrieReader};
use tenon_chain::TrieUpdate;

/// Memory of a changed account, bytes.
const ACCOUNT_BYTES: usize = 2 * size_of::<ChangedAccount>() + 64;
/// Memory of a changed slot, bytes.
const SLOT_BYTES: usize = 2 * size_of::<(B256, U256)>();
/// Memory of a trie node in addition to its RLP, bytes.
const NODE_BYTES: usize = 2 * size_of::<(B256, Bytes)>() + 32;

/// The state, block hashes and trie nodes after the simulated blocks so far.
pub(super) struct SimulatedState {
    base: Arc<dyn StateReader>,
    base_number: u64,
    base_nodes: Arc<dyn TrieReader>,
    /// Hashes of the simulated blocks, beginning with the child of the base.
    hashes: Vec<B256>,
    accounts: AddressMap<ChangedAccount>,
    codes: B256Map<Bytes>,
    nodes: B256Map<Bytes>,
    /// Approximate memory of all these, bytes.
    weight: usize,
}

/// The changes of a block.
pub(super) struct BlockChanges {
    pub(super) accounts: Vec<AccountChange>,
    pub(super) codes: Vec<(B256, Bytes)>,
    pub(super) update: TrieUpdate,
}

#[derive(Default)]
struct ChangedAccount {
    account: Option<Account>,
    /// Whether slots that are not in `slots` are zero.
    is_wiped: bool,
    slots: B256Map<U256>,
}

impl SimulatedState {
    pub(super) fn new(base: Arc<dyn StateReader>, base_nodes: Arc<dyn TrieReader>, base_number: u64) -> Self {
        Self {
            base,
            base_number,
            base_nodes,
            hashes: Vec::new(),
            accounts: AddressMap::default(),
            codes: B256Map::default(),
            nodes: B256Map::default(),
            weight: 0,
        }
    }

    /// Approximate memory use, bytes.
    pub(super) const fn weight(&self) -> u64 {
        self.weight as u64
    }

    /// Adds the next block.
    pub(super) fn add(&mut self, hash: B256, changes: BlockChanges) {
        self.hashes.push(hash);
        let BlockChanges { accounts, codes, update } = changes;
        for change in accounts {
            self.weight += ACCOUNT_BYTES + SLOT_BYTES * change.slots.len();
            let account = self.accounts.entry(change.address).or_default();
            if change.storage_wiped || change.account.is_none() {
                account.is_wiped = true;
                account.slots.clear();
            }
            account.account = change.account;
            account.slots.extend(change.slots.iter().map(|change| (change.slot, change.value)));
        }
        for (hash, code) in codes {
            self.weight += code.len() + NODE_BYTES;
            self.codes.insert(hash, code);
        }
        for node in update.writes {
            self.weight += node.rlp.len() + NODE_BYTES;
            self.nodes.insert(node.hash, node.rlp);
        }
    }
}

impl StateReader for SimulatedState {
    fn account(&self, address: Address) -> Result<Option<Account>, StoreError> {
        match self.accounts.get(&address) {
            Some(changed) => Ok(changed.account),
            None => self.base.account(address),
        }
    }

    fn storage(&self, address: Address, slot: B256) -> Result<U256, StoreError> {
        let Some(changed) = self.accounts.get(&address) else { return self.base.storage(address, slot) };
        match changed.slots.get(&slot) {
            Some(value) => Ok(*value),
            None if changed.is_wiped => Ok(U256::ZERO),
            None => self.base.storage(address, slot),
        }
    }

    fn code(&self, code_hash: B256) -> Result<Option<Bytes>, StoreError> {
        match self.codes.get(&code_hash) {
            Some(code) => Ok(Some(code.clone())),
            None => self.base.code(code_hash),
        }
    }

    fn block_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError> {
        let Some(above) = number.0.checked_sub(self.base_number).and_then(|above| above.checked_sub(1)) else {
            return self.base.block_hash(number);
        };
        Ok(usize::try_from(above).ok().and_then(|above| self.hashes.get(above)).copied())
    }
}

impl TrieReader for SimulatedState {
    fn node(&self, owner: Option<B256>, path: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
        match self.nodes.get(&hash) {
            Some(rlp) => Ok(Some(rlp.clone())),
            None => self.base_nodes.node(owner, path, hash),
        }
    }
}
