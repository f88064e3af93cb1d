//! A state whose reads let a job yield to other clients.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};
use tenon_api::{Account, BlockNumber, StateReader, StoreError};
use tenon_bus::CallContext;

/// Wraps a state for a job of the work pool. A run that reads thousands of slots between two jumps would otherwise
/// block another client for too long.
pub(super) struct PausingState {
    pub(super) state: Arc<dyn StateReader>,
    pub(super) caller: CallContext,
}

impl PausingState {
    fn state(&self) -> &dyn StateReader {
        self.caller.yield_turn_if_contended();
        &*self.state
    }
}

impl StateReader for PausingState {
    fn account(&self, address: Address) -> Result<Option<Account>, StoreError> {
        self.state().account(address)
    }

    fn storage(&self, address: Address, slot: B256) -> Result<U256, StoreError> {
        self.state().storage(address, slot)
    }

    fn code(&self, code_hash: B256) -> Result<Option<Bytes>, StoreError> {
        self.state().code(code_hash)
    }

    fn block_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError> {
        self.state().block_hash(number)
    }
}
