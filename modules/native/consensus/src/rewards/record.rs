//! The supply record: the amounts minted and burned since the rewards' upgrade, in the storage of an account without
//! code (`docs/spec/upgrades.md` 4).

use alloy_primitives::address;
use tenon_api::{AccountRecord, Address, B256, StateReader, StoreError, U256};
use tenon_native_spec::NativeConsensus;

use crate::v2::epoch_number;

/// The account of the record.
pub const SUPPLY_RECORD: Address = address!("000000000000000000000000000000000000009a");
/// Slots of the epoch and of the block number of the first reward.
const FIRST_EPOCH_SLOT: u64 = 1;
const FIRST_BLOCK_SLOT: u64 = 2;

/// First byte of the slots with an epoch's figures; the epoch is in the last bytes.
#[derive(Clone, Copy, Debug)]
enum Figure {
    Minted = 1,
    Burned = 2,
    RewardBlock = 3,
}

impl Figure {
    fn slot(self, epoch: u64) -> B256 {
        let mut slot = B256::from(U256::from(epoch));
        slot.0[0] = self as u8;
        slot
    }
}

/// Wei minted and burned by an epoch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Supply {
    pub(super) minted: U256,
    pub(super) burned: U256,
}

/// The record's change by a reward block. Only a reward block can change the account's nonce and slots, so they can be
/// read from the state before the block's transactions.
pub(super) fn of_reward(
    consensus: &NativeConsensus,
    number: u64,
    round: u64,
    supply: &Supply,
    parent_state: &dyn StateReader,
) -> Result<AccountRecord, StoreError> {
    let epoch = epoch_number(consensus, round);
    let nonce = parent_state.account(SUPPLY_RECORD)?.map_or(0, |account| account.nonce);
    let mut slots = Vec::new();
    let previous = if nonce == 0 {
        slots.push((B256::from(U256::from(FIRST_EPOCH_SLOT)), U256::from(epoch)));
        slots.push((B256::from(U256::from(FIRST_BLOCK_SLOT)), U256::from(number)));
        Supply::default()
    } else {
        newest_below(epoch, parent_state)?
    };
    slots.extend([
        (Figure::Minted.slot(epoch), previous.minted.saturating_add(supply.minted)),
        (Figure::Burned.slot(epoch), previous.burned.saturating_add(supply.burned)),
        (Figure::RewardBlock.slot(epoch), U256::from(number)),
    ]);
    Ok(AccountRecord { account: SUPPLY_RECORD, nonce: nonce.saturating_add(1), slots })
}

/// The totals of the newest earlier epoch that has a record. An epoch without a block has none.
fn newest_below(epoch: u64, state: &dyn StateReader) -> Result<Supply, StoreError> {
    for earlier in (0..epoch).rev() {
        let minted = state.storage(SUPPLY_RECORD, Figure::Minted.slot(earlier))?;
        let burned = state.storage(SUPPLY_RECORD, Figure::Burned.slot(earlier))?;
        if !minted.is_zero() || !burned.is_zero() {
            return Ok(Supply { minted, burned });
        }
    }
    Ok(Supply::default())
}
