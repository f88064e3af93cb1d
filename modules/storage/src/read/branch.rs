//! States of blocks outside the canonical chain.
//!
//! The flat records follow the canonical chain. A block that was removed from it, or executed beside it, has its trie
//! nodes in the database. They are found by hash, so the state is read from the header's state root. That costs a walk
//! down the trie per value. If pruning has removed nodes, the state is reported as pruned.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};
use tenon_api::{Account, BlockNumber, SealedHeader, StateReader, StoreError};
use tenon_chain::TrieError;

use crate::{error::corrupt, read::shared::Shared};

/// Maximum number of the block's ancestors on the branch that are searched to list changed slots.
const MAX_BRANCH: u64 = 1_024;

/// The state after a block of another branch.
pub(crate) struct BranchState {
    shared: Arc<Shared>,
    header: Arc<SealedHeader>,
}

impl BranchState {
    /// The state; `None` if this node never had it, or no longer has it.
    pub(crate) fn open(shared: &Arc<Shared>, header: &SealedHeader) -> Result<Option<Self>, StoreError> {
        let state = Self { shared: Arc::clone(shared), header: Arc::new(header.clone()) };
        match state.account(Address::ZERO) {
            Ok(_) => Ok(Some(state)),
            Err(StoreError::Pruned { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn named(&self, error: TrieError) -> StoreError {
        match error {
            TrieError::Store(error) => error,
            TrieError::Missing { .. } => StoreError::Pruned {
                number: BlockNumber(self.header.number),
                oldest: BlockNumber(self.shared.oldest_state()),
            },
            damaged @ TrieError::Corrupt { .. } => corrupt(damaged.to_string()),
        }
    }
}

impl StateReader for BranchState {
    fn account(&self, address: Address) -> Result<Option<Account>, StoreError> {
        let account = tenon_chain::read_account(&*self.shared, self.header.state_root, address);
        account.map_err(|error| self.named(error))
    }

    fn storage(&self, address: Address, slot: B256) -> Result<U256, StoreError> {
        let Some(account) = self.account(address)? else { return Ok(U256::ZERO) };
        let value = tenon_chain::read_slot(&*self.shared, account.storage_root, address, slot);
        value.map_err(|error| self.named(error))
    }

    fn code(&self, code_hash: B256) -> Result<Option<Bytes>, StoreError> {
        self.shared.code(code_hash)
    }

    /// The block of this height among the ancestors of the branch's block.
    fn block_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError> {
        if number.0 > self.header.number {
            return Ok(None);
        }
        let (mut height, mut hash) = (self.header.number, self.header.hash());
        while height > number.0 {
            if self.shared.canonical(height)?.is_some_and(|(canonical, _)| canonical == hash) {
                return Ok(self.shared.canonical(number.0)?.map(|(hash, _)| hash));
            }
            let Some(header) = self.shared.header(hash)? else { return Ok(None) };
            (height, hash) = (height - 1, header.parent_hash);
        }
        Ok(Some(hash))
    }
}

/// The slots of an account changed by a block of another branch and its ancestors on that branch.
pub(crate) fn changed_slots(shared: &Shared, header: &SealedHeader, address: Address) -> Result<Vec<B256>, StoreError> {
    let mut slots = Vec::new();
    let (mut number, mut hash) = (header.number, header.hash());
    for _ in 0..MAX_BRANCH {
        let Some(block) = shared.side_block(number, hash)? else { break };
        let own = block.changes.slots.into_iter().filter(|(changed, _)| *changed == address);
        slots.extend(own.flat_map(|(_, slots)| slots));
        let Some(header) = shared.header(hash)? else { break };
        (number, hash) = (number.saturating_sub(1), header.parent_hash);
    }
    Ok(slots)
}
