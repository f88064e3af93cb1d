//! Arrays in contracts that consensus reads (`docs/spec/chain.md` 10).

use tenon_api::{Address, B256, StateReader, StoreError, U256};
use tenon_chain::element_slot;

/// Maximum number of entries. The gas for a longer array exceeds that of all blocks, so it means a corrupt state.
const MAX_ENTRIES: u64 = 1 << 20;

/// The words of the dynamic array whose length is at `slot`.
pub(crate) fn read_array(state: &dyn StateReader, contract: Address, slot: B256) -> Result<Vec<B256>, StoreError> {
    let length = state.storage(contract, slot)?;
    if length > U256::from(MAX_ENTRIES) {
        return Err(StoreError::Corrupt { what: format!("array of {length} entries at {slot} of {contract}") });
    }
    let word = |index: u64| state.storage(contract, element_slot(slot, index)).map(B256::from);
    (0..length.saturating_to::<u64>()).map(word).collect()
}

/// Like [`read_array`], for an array of addresses.
pub(crate) fn read_addresses(
    state: &dyn StateReader,
    contract: Address,
    slot: B256,
) -> Result<Vec<Address>, StoreError> {
    Ok(read_array(state, contract, slot)?.into_iter().map(Address::from_word).collect())
}
