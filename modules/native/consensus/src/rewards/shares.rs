//! The split of a masternode's reward.

use std::collections::BTreeMap;

use tenon_api::{Address, StateReader, StoreError, U256};

use tenon_chain::{VALIDATOR_CONTRACT, candidate_record, mapping_slot};

use crate::contract_slots::read_addresses;

/// The owner's percentage of a reward.
const OWNER_PERCENT: u64 = 90;
/// The foundation's percentage. Voters get nothing.
const FOUNDATION_PERCENT: u64 = 10;
/// Position of 0x88's mapping from candidates to their voters (`docs/spec/chain.md` 10.1).
const VOTERS_POSITION: u64 = 2;
/// Word of a record with the mapping from voters to stakes.
const STAKES_WORD: u64 = 2;

/// The owner of a masternode in this state, who receives its reward. Zero if it is not a candidate.
///
/// # Errors
/// [`StoreError`] when the state can't be read.
pub fn owner_of(state: &dyn StateReader, masternode: Address) -> Result<Address, StoreError> {
    tenon_chain::masternode_owner(masternode, |contract, slot| state.storage(contract, slot))
}

/// The foundation's wallet, and whether the foundation keeps both parts of a node that it owns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Foundation {
    /// Its wallet.
    pub(super) wallet: Address,
    /// Whether a foundation that owns the node gets both parts, from `tipUpgradeReward` on (`docs/spec/upgrades.md`
    /// 3.2). Before, its 90 percent are overwritten by the 10: the reference writes both into one table.
    pub(super) keeps_both_parts: bool,
}

/// Splits a node's reward.
pub(super) fn shares(
    state: &dyn StateReader,
    masternode: Address,
    reward: U256,
    foundation: Foundation,
) -> Result<BTreeMap<Address, U256>, StoreError> {
    let part = |percent: u64| reward * U256::from(percent) / U256::from(100);
    let mut shares = BTreeMap::from([(owner_of(state, masternode)?, part(OWNER_PERCENT))]);
    for voter in voters_with_stake(state, masternode)? {
        shares.entry(voter).or_default();
    }
    let own = shares.entry(foundation.wallet).or_default();
    let before = if foundation.keeps_both_parts { *own } else { U256::ZERO };
    *own = before.saturating_add(part(FOUNDATION_PERCENT));
    Ok(shares)
}

/// A voter's stake in a masternode, wei.
///
/// # Errors
/// [`StoreError`] when the state can't be read.
pub fn stake_of_voter(state: &dyn StateReader, masternode: Address, voter: Address) -> Result<U256, StoreError> {
    let record = U256::from_be_bytes(candidate_record(masternode).0);
    let stakes = record.wrapping_add(U256::from(STAKES_WORD));
    state.storage(VALIDATOR_CONTRACT, mapping_slot(voter.into_word(), stakes))
}

/// The voters with a stake in a masternode. A voter may be listed twice.
fn voters_with_stake(state: &dyn StateReader, masternode: Address) -> Result<Vec<Address>, StoreError> {
    let key = masternode.into_word();
    let mut staked = Vec::new();
    for voter in read_addresses(state, VALIDATOR_CONTRACT, mapping_slot(key, U256::from(VOTERS_POSITION)))? {
        if !stake_of_voter(state, masternode, voter)?.is_zero() {
            staked.push(voter);
        }
    }
    Ok(staked)
}
