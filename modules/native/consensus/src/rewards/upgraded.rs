//! Rewards from `tipUpgradeReward` on: a fixed amount for each member of three roles (`docs/spec/upgrades.md` 3).

use std::{cmp::Reverse, collections::HashSet};

use tenon_api::{Address, ChainReader, Header, StateReader, StoreError, U256};
use tenon_native_spec::NativeSettings;

use super::{
    EpochRewards, RewardError, RoleRewards, SignerReward, UpgradedRewards,
    amount::role_reward,
    amounts,
    counting::{Window, ended_epoch},
    record,
    shares::{Foundation, shares},
};
use crate::{candidates::read_candidates, signing::SigningIndex, v2::round_of};

/// The candidates that are paid in addition to the masternodes.
struct Standby {
    protectors: Vec<Address>,
    observers: Vec<Address>,
}

/// The rewards of a v2 epoch switch, with the supply record. `parent_state` is the state before the block's
/// transactions. On a chain with fewer than two epoch switches before the block there are no rewards, but the record is
/// written (3.1).
pub(super) fn of_block(
    settings: &NativeSettings,
    header: &Header,
    parent_state: &dyn StateReader,
    chain: &dyn ChainReader,
    signing: &SigningIndex,
) -> Result<EpochRewards, RewardError> {
    let consensus = &settings.consensus;
    let round = round_of(consensus, header)?;
    let config = consensus.at_round(round);
    let ended = ended_epoch(settings, header, chain, signing)?;
    let mut roles = [RoleRewards::default(), RoleRewards::default(), RoleRewards::default()];
    if let Some(window) = &ended.window {
        let standby = standby(window, parent_state, [config.max_protector_nodes, config.max_observer_nodes])?;
        let observers = standby.observers.into_iter().collect();
        let members = [window.masternodes.clone(), standby.protectors.into_iter().collect(), observers];
        let foundation = Foundation { wallet: consensus.foundation_wallet, keeps_both_parts: true };
        for ((role, members), coins) in roles.iter_mut().zip(&members).zip(config.rewards()) {
            let reward = role_reward(settings, header.number, coins);
            *role = rewards_of_role(settings, window, members, reward, parent_state, foundation)?;
        }
    }
    let [masternodes, protectors, observers] = roles;
    let minted = [&masternodes, &protectors, &observers].into_iter().flat_map(amounts);
    let supply = record::Supply { minted: minted.fold(U256::ZERO, U256::saturating_add), burned: ended.burned };
    let record = record::of_reward(consensus, header.number, round, &supply, parent_state)?;
    let RoleRewards { signers, shares } = masternodes;
    Ok(EpochRewards { signers, shares, upgraded: Some(UpgradedRewards { protectors, observers, record }) })
}

/// Pays the same amount to each member that signed a counted block of the epoch, regardless of the number of signed
/// blocks (3.1 step 5, 3.2).
fn rewards_of_role(
    settings: &NativeSettings,
    window: &Window,
    members: &HashSet<Address>,
    reward: U256,
    parent_state: &dyn StateReader,
    foundation: Foundation,
) -> Result<RoleRewards, StoreError> {
    let mut role = RoleRewards::default();
    for (signer, signed) in window.counts(settings, members) {
        role.signers.insert(signer, SignerReward { signed, reward });
        role.shares.insert(signer, shares(parent_state, signer, reward, foundation)?);
    }
    Ok(role)
}

/// Protectors and observers: the candidates with the largest stakes that are neither masternodes of the rewarded epoch
/// nor penalised in its first header (3.1 steps 2 to 4). Equal stakes stay in the contract's order, unlike in the
/// order of masternodes.
fn standby(
    window: &Window,
    parent_state: &dyn StateReader,
    [max_protectors, max_observers]: [usize; 2],
) -> Result<Standby, StoreError> {
    if (max_protectors, max_observers) == (0, 0) {
        return Ok(Standby { protectors: Vec::new(), observers: Vec::new() });
    }
    let mut candidates = read_candidates(parent_state)?;
    candidates.sort_by_key(|(_, stake)| Reverse(*stake));
    let mut rest = candidates
        .into_iter()
        .map(|(candidate, _)| candidate)
        .filter(|candidate| !window.masternodes.contains(candidate) && !window.penalties.contains(candidate));
    let protectors = rest.by_ref().take(max_protectors).collect();
    Ok(Standby { protectors, observers: rest.take(max_observers).collect() })
}
