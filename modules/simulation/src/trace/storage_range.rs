//! Slots of a contract before a transaction of a block (`debug_storageRangeAt`; `docs/spec/rpc-node.md` 4.3).

use std::{collections::BTreeMap, sync::Arc};

use alloy_primitives::{Address, B256, U256, keccak256};
use tenon_api::{
    RecoveredBlock, SealedHeader,
    messages::{GetStorageRange, MissingItem, StorageRange, StorageRangeSlot, TracerDialect},
};
use tenon_bus::CallContext;
use tenon_execution_interface::BlockState;
use tenon_simulation_interface::CallError;
use tenon_traces::TraceError;

use crate::call::Calls;

/// Contracts with more slots are not listed: every key must be hashed, because no index is ordered by hash.
const MAX_SLOTS: usize = 2_000_000;

/// Checks for cancellation once per this many slots.
const CHECK_PERIOD: usize = 1024;

impl Calls {
    /// `debug_storageRangeAt`.
    pub(crate) fn storage_range(
        &self,
        request: &GetStorageRange,
        caller: &CallContext,
    ) -> Result<StorageRange, TraceError> {
        let hash = request.block;
        let unknown = || missing(MissingItem::BlockByHash(hash));
        let block = self.chain.block(hash)?.ok_or_else(unknown)?;
        let mut state = self.state_inside(&block, request.transaction_index, caller)?;
        if !state.exists(request.contract)? {
            return Err(missing(MissingItem::Account(request.contract)));
        }
        let keys = self.keys(request.contract, &block, &mut state, caller)?;
        Ok(range(keys, request))
    }

    /// The state before a transaction of the block.
    fn state_inside(&self, block: &RecoveredBlock, index: i64, caller: &CallContext) -> Result<BlockState, TraceError> {
        let found = u64::try_from(index).ok().filter(|index| *index < block.transactions.len() as u64);
        let Some(found) = found else {
            self.parent_of(block)?;
            return Err(missing(MissingItem::Index { index: index.into(), block: block.hash() }));
        };
        self.state_before(block, found, caller)
    }

    /// Every nonzero slot inside a block, by the hash of its key.
    fn keys(
        &self,
        contract: Address,
        block: &RecoveredBlock,
        state: &mut BlockState,
        caller: &CallContext,
    ) -> Result<BTreeMap<B256, (U256, U256)>, TraceError> {
        let parent = self.parent_of(block)?;
        // Returns the specific error if the parent's state is gone.
        self.state_after(&parent, caller)?;
        let (mut slots, is_wiped) = state.known_slots(contract);
        if !is_wiped {
            let stored = self
                .chain
                .slots_of(contract, MAX_SLOTS)?
                .ok_or(TraceError::TooManySlots { contract, max: MAX_SLOTS })?;
            let changed = self.chain.slots_of_branch(&parent, contract)?;
            slots.extend(stored.into_iter().chain(changed).map(|slot| U256::from_be_bytes(slot.0)));
        }
        let mut keys = BTreeMap::new();
        for (count, slot) in slots.into_iter().enumerate() {
            if count % CHECK_PERIOD == 0 && caller.should_stop() {
                return Err(CallError::CallerGone.into());
            }
            let value = state.read_slot(contract, slot)?;
            if !value.is_zero() {
                keys.insert(keccak256(B256::from(slot)), (slot, value));
            }
        }
        Ok(keys)
    }

    fn parent_of(&self, block: &RecoveredBlock) -> Result<Arc<SealedHeader>, TraceError> {
        let hash = block.header.parent_hash;
        self.chain.header(hash)?.ok_or_else(|| missing(MissingItem::Parent(hash)))
    }
}

/// The error of something that is unknown, in the words of the reference on every chain.
const fn missing(item: MissingItem) -> TraceError {
    TraceError::missing(item, TracerDialect::Reference)
}

/// The requested part. `start` is a prefix of a hash.
fn range(keys: BTreeMap<B256, (U256, U256)>, request: &GetStorageRange) -> StorageRange {
    let mut rest = keys.into_iter().skip_while(|(hash, _)| hash.as_slice() < &request.start[..]);
    let limit = usize::try_from(request.limit).unwrap_or(0);
    let slots = rest.by_ref().take(limit);
    let slots = slots.map(|(hash, (slot, value))| StorageRangeSlot { hash, slot: B256::from(slot), value }).collect();
    StorageRange { slots, next: rest.next().map(|(hash, _)| hash) }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::Bytes;

    use super::*;

    #[test]
    fn a_range_begins_at_a_hash_or_prefix_and_names_the_next_slot() {
        let keys: BTreeMap<B256, (U256, U256)> =
            [0x10, 0x80, 0x90].map(|byte| (B256::repeat_byte(byte), (U256::from(byte), U256::from(1)))).into();
        let ask = |start: &[u8], limit| {
            let request = GetStorageRange {
                block: B256::ZERO,
                transaction_index: 0,
                contract: Address::ZERO,
                start: Bytes::copy_from_slice(start),
                limit,
            };
            let found = range(keys.clone(), &request);
            let hashes: Vec<u8> = found.slots.iter().map(|slot| slot.hash[0]).collect();
            (hashes, found.next.map(|hash| hash[0]))
        };

        assert_eq!(ask(&[], 2), (vec![0x10, 0x80], Some(0x90)));
        assert_eq!(ask(&[0x80], 5), (vec![0x80, 0x90], None));
        assert_eq!(ask(&[0x81], 5), (vec![0x90], None));
        assert_eq!(ask(&[0x80], 0), (vec![], Some(0x80)));
        assert_eq!(ask(&[0x80], -1), (vec![], Some(0x80)));
        assert_eq!(ask(&[0xff], 5), (vec![], None));
    }
}
