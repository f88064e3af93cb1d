//! Where Solidity keeps mappings and arrays (`spec/chain.md` 10), for the contracts that consensus reads.

use alloy_primitives::keccak256;
use tenon_api::{Address, B256, StateReader, StoreError, U256};

/// More entries than this can't be paid for; a longer array means a damaged state.
const MAX_ENTRIES: u64 = 1 << 20;

/// Entry of `key` in the mapping at `position`.
pub(crate) fn mapping_slot(key: B256, position: U256) -> B256 {
    let mut preimage = [0; 64];
    preimage[..32].copy_from_slice(key.as_slice());
    preimage[32..].copy_from_slice(&position.to_be_bytes::<32>());
    keccak256(preimage)
}

/// The words of the dynamic array whose length stands at `slot`.
pub(crate) fn read_array(state: &dyn StateReader, contract: Address, slot: B256) -> Result<Vec<B256>, StoreError> {
    let length = state.storage(contract, slot)?;
    if length > U256::from(MAX_ENTRIES) {
        return Err(StoreError::Corrupt { what: format!("array of {length} entries at {slot} of {contract}") });
    }
    let first = U256::from_be_bytes(keccak256(slot).0);
    let word = |index: u64| state.storage(contract, B256::from(first.wrapping_add(U256::from(index)))).map(B256::from);
    (0..length.saturating_to::<u64>()).map(word).collect()
}

/// The same, of addresses.
pub(crate) fn read_addresses(
    state: &dyn StateReader,
    contract: Address,
    slot: B256,
) -> Result<Vec<Address>, StoreError> {
    Ok(read_array(state, contract, slot)?.into_iter().map(Address::from_word).collect())
}
