//! Rewards of masternodes and the foundation at the end of an epoch (`docs/spec/chain.md` 4.3, `docs/spec/consensus.md`
//! 11): every signature of a counted block pays the same.

mod amount;
mod counting;
mod record;
mod shares;
mod upgraded;

use std::collections::BTreeMap;

use tenon_api::{
    AccountRecord, Address, B256, BlockRewards, ChainReader, Header, StateReader, StoreError, U256,
    messages::{EpochReward, OtherRewards, RoleRewards, SignerReward},
};
use tenon_native_spec::NativeSettings;

use super::{
    signing::SigningIndex,
    v2::{V2Error, is_epoch_switch},
};
pub use amount::epoch_reward;
pub use record::SUPPLY_RECORD;
use shares::Foundation;
pub use shares::{owner_of, stake_of_voter};

/// Why rewards cannot be computed. The reference logs such an error and pays nothing, which results in a wrong state
/// root; here the block is refused with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RewardError {
    /// A block of the last two epochs is not stored.
    #[error("fail to get header in GetSigningTxCount at number: {number}, hash: {hash}")]
    MissingHeader {
        /// Its height.
        number: u64,
        /// Its hash.
        hash: B256,
    },
    /// A header's extra data cannot be decoded.
    #[error(transparent)]
    Epoch(#[from] V2Error),
    /// The chain or the state could not be read.
    #[error("chain not readable: {0}")]
    Store(#[from] StoreError),
}

/// The rewards of an epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpochRewards {
    /// By masternode.
    pub signers: BTreeMap<Address, SignerReward>,
    /// The split of each masternode's reward: wei by receiver. Voters are listed with zero.
    pub shares: BTreeMap<Address, BTreeMap<Address, U256>>,
    /// The additions of `tipUpgradeReward`; `None` before it.
    pub upgraded: Option<UpgradedRewards>,
}

/// The parts of an epoch's rewards that exist from `tipUpgradeReward` on (`docs/spec/upgrades.md` 3, 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradedRewards {
    /// The rewards of protectors.
    pub protectors: RoleRewards,
    /// The rewards of observers.
    pub observers: RoleRewards,
    /// The supply record's change.
    pub record: AccountRecord,
}

/// Every part of every member's reward, wei.
fn amounts(role: &RoleRewards) -> impl Iterator<Item = U256> {
    role.shares.values().flat_map(BTreeMap::values).copied()
}

impl EpochRewards {
    /// The changes that the block makes to the state.
    pub fn into_block_rewards(self) -> BlockRewards {
        BlockRewards { credits: self.credits(), record: self.upgraded.map(|upgraded| upgraded.record) }
    }

    /// Balance credits in wei, one per address, ascending. Zero credits are included: they touch the account.
    pub fn credits(&self) -> Vec<(Address, U256)> {
        let mut credits = BTreeMap::new();
        let others =
            self.upgraded.iter().flat_map(|upgraded| [&upgraded.protectors.shares, &upgraded.observers.shares]);
        for (receiver, amount) in others.chain([&self.shares]).flat_map(BTreeMap::values).flatten() {
            let credit: &mut U256 = credits.entry(*receiver).or_default();
            *credit = credit.saturating_add(*amount);
        }
        credits.into_iter().collect()
    }

    /// The rewards without the changes to the state.
    pub fn into_reply(self) -> EpochReward {
        let Self { signers, shares, upgraded } = self;
        let others =
            upgraded.map(|UpgradedRewards { protectors, observers, .. }| OtherRewards { protectors, observers });
        EpochReward { masternodes: RoleRewards { signers, shares }, others }
    }
}

/// Returns whether a block may pay rewards: a v1 block at a multiple of the reward distance that is not the first; a v2
/// epoch switch that is not the first v2 block.
///
/// # Errors
/// [`RewardError::Epoch`] if a v2 header's extra data cannot be decoded.
pub fn pays_rewards(settings: &NativeSettings, header: &Header) -> Result<bool, RewardError> {
    let consensus = &settings.consensus;
    let number = header.number;
    if number > consensus.switch_block {
        let is_first = number == consensus.switch_block.saturating_add(1);
        return Ok(!is_first && is_epoch_switch(consensus, header)?);
    }
    let distance = consensus.reward_checkpoint;
    Ok(distance > 0 && number.is_multiple_of(distance) && number > distance)
}

/// The rewards paid by a block, `None` if it pays none. `parent_state` is the state before the block's transactions,
/// with the owners. The blocks of the last two epochs are read from `chain`, from the block's parent back.
///
/// A chain without a foundation wallet pays nothing: the reference stops there.
///
/// # Errors
/// [`RewardError`].
pub fn of_block(
    settings: &NativeSettings,
    header: &Header,
    parent_state: &dyn StateReader,
    chain: &dyn ChainReader,
    signing: &SigningIndex,
) -> Result<Option<EpochRewards>, RewardError> {
    if settings.consensus.foundation_wallet.is_zero() || !pays_rewards(settings, header)? {
        return Ok(None);
    }
    let is_upgraded = settings.heights.is_upgrade_reward(header.number);
    if is_upgraded && header.number > settings.consensus.switch_block {
        return upgraded::of_block(settings, header, parent_state, chain, signing).map(Some);
    }
    let foundation = Foundation { wallet: settings.consensus.foundation_wallet, keeps_both_parts: is_upgraded };
    let counts = counting::signature_counts(settings, header, chain, signing)?;
    let total: u64 = counts.values().sum();
    let mut rewards = EpochRewards::default();
    let unit = epoch_reward(settings, header.number).checked_div(U256::from(total)).unwrap_or_default();
    for (signer, signed) in counts {
        let reward = unit * U256::from(signed);
        rewards.signers.insert(signer, SignerReward { signed, reward });
        let shares = shares::shares(parent_state, signer, reward, foundation)?;
        rewards.shares.insert(signer, shares);
    }
    Ok(Some(rewards))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod upgraded_tests;
