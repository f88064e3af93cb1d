//! A state in memory, for cases that execute one transaction on it.

use std::{collections::HashMap, sync::Arc};

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use tenon_api::{Account, BlockCommit, BlockNumber, EMPTY_CODE_HASH, StateReader, StoreError, TrieReader};
use tenon_execution_block::StateBefore;

type TrieKey = (Option<B256>, Vec<u8>, B256);

/// Nodes of tries by position and hash. Nothing is ever removed.
#[derive(Debug, Default)]
pub(crate) struct Nodes(HashMap<TrieKey, Bytes>);

impl Nodes {
    pub(crate) fn extend(&mut self, writes: &[tenon_api::TrieNodeWrite]) {
        self.0.extend(
            writes
                .iter()
                .map(|write| ((write.position.owner, write.position.path.clone(), write.hash), write.rlp.clone())),
        );
    }
}

impl TrieReader for Nodes {
    fn node(&self, owner: Option<B256>, path: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
        Ok(self.0.get(&(owner, path.to_vec(), hash)).cloned())
    }
}

/// The state of a genesis commit.
#[derive(Debug)]
struct MemoryState {
    accounts: HashMap<Address, (Account, HashMap<B256, U256>)>,
    codes: HashMap<B256, Bytes>,
}

impl StateReader for MemoryState {
    fn account(&self, address: Address) -> Result<Option<Account>, StoreError> {
        Ok(self.accounts.get(&address).map(|(account, _)| *account))
    }

    fn storage(&self, address: Address, slot: B256) -> Result<U256, StoreError> {
        let slots = self.accounts.get(&address).map(|(_, slots)| slots);
        Ok(slots.and_then(|slots| slots.get(&slot).copied()).unwrap_or_default())
    }

    fn code(&self, code_hash: B256) -> Result<Option<Bytes>, StoreError> {
        if code_hash == EMPTY_CODE_HASH {
            return Ok(Some(Bytes::new()));
        }
        Ok(self.codes.get(&code_hash).cloned())
    }

    /// The state tests have no blocks: block hashes are those of the decimal numbers.
    fn block_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError> {
        Ok(Some(keccak256(number.0.to_string())))
    }
}

/// The state after a genesis commit, for execution.
pub(crate) fn state_of(commit: &BlockCommit) -> StateBefore {
    let account = |change: &tenon_api::AccountChange| {
        let slots = change.slots.iter().map(|slot| (slot.slot, slot.value)).collect();
        change.account.map(|account| (change.address, (account, slots)))
    };
    let state = MemoryState {
        accounts: commit.accounts.iter().filter_map(account).collect(),
        codes: commit.codes.iter().cloned().collect(),
    };
    let mut nodes = Nodes::default();
    nodes.extend(&commit.trie_nodes);
    StateBefore { state: Arc::new(state), trie: Arc::new(nodes), root: commit.block.header.state_root }
}
