//! The rewards that a block paid (`eth_getRewardByHash`), in the form of the file in which the reference keeps them.

use std::collections::BTreeMap;

use alloy_primitives::{Address, U256};
use tenon_api::messages::{EpochReward, SignerReward};

use super::JsonWriter;

/// Approximate length of a signer's reward and of each part of it, bytes.
const ENTRY_BYTES: usize = 130;

/// The rewards of an epoch: amounts as JSON integers of any size, members sorted. Before `tipUpgradeReward` the object
/// has two members, from then on six (`docs/spec/upgrades.md` 3.3).
pub fn epoch_reward_json(reward: &EpochReward) -> JsonWriter {
    let EpochReward { masternodes, others } = reward;
    let mut json = JsonWriter::with_capacity(ENTRY_BYTES * 3 * (masternodes.signers.len() + 1));
    json.begin_object();
    write_shares(&mut json, "rewards", &masternodes.shares);
    if let Some(others) = others {
        write_shares(&mut json, "rewardsObserver", &others.observers.shares);
        write_shares(&mut json, "rewardsProtector", &others.protectors.shares);
    }
    write_signers(&mut json, "signers", &masternodes.signers);
    if let Some(others) = others {
        write_signers(&mut json, "signersObserver", &others.observers.signers);
        write_signers(&mut json, "signersProtector", &others.protectors.signers);
    }
    json.end_object();
    json
}

fn write_shares(json: &mut JsonWriter, name: &str, shares: &BTreeMap<Address, BTreeMap<Address, U256>>) {
    json.key(name).begin_object();
    for (signer, shares) in shares {
        address_key(json, signer).begin_object();
        for (receiver, amount) in shares {
            address_key(json, receiver).raw(&amount.to_string());
        }
        json.end_object();
    }
    json.end_object();
}

fn write_signers(json: &mut JsonWriter, name: &str, signers: &BTreeMap<Address, SignerReward>) {
    json.key(name).begin_object();
    for (signer, SignerReward { signed, reward }) in signers {
        address_key(json, signer).begin_object();
        json.key("reward").raw(&reward.to_string());
        json.key("sign").raw(&signed.to_string());
        json.end_object();
    }
    json.end_object();
}

fn address_key<'a>(json: &'a mut JsonWriter, address: &Address) -> &'a mut JsonWriter {
    json.key(&format!("{address:#x}"))
}

#[cfg(test)]
mod tests {
    use tenon_api::messages::{OtherRewards, RoleRewards};

    use super::*;

    fn role(signer: Address) -> RoleRewards {
        let reward = U256::from(2_000_000_000_000_000_000_u64);
        RoleRewards {
            signers: BTreeMap::from([(signer, SignerReward { signed: 1, reward })]),
            shares: BTreeMap::from([(signer, BTreeMap::from([(Address::ZERO, reward), (signer, U256::ZERO)]))]),
        }
    }

    #[test]
    fn masternodes_have_two_members_and_the_other_roles_four_more() {
        let (signer, zero) = (format!("{:#x}", Address::repeat_byte(1)), format!("{:#x}", Address::ZERO));
        let shares = format!(r#"{{"{signer}":{{"{zero}":2000000000000000000,"{signer}":0}}}}"#);
        let signers = format!(r#"{{"{signer}":{{"reward":2000000000000000000,"sign":1}}}}"#);
        let masternodes = role(Address::repeat_byte(1));
        let before = EpochReward { masternodes: masternodes.clone(), others: None };
        let others = OtherRewards { protectors: masternodes, observers: RoleRewards::default() };
        let after = EpochReward { masternodes: RoleRewards::default(), others: Some(others) };

        let expected = format!(r#"{{"rewards":{shares},"signers":{signers}}}"#);
        assert_eq!(epoch_reward_json(&before).into_string(), expected);
        let expected = format!(
            r#"{{"rewards":{{}},"rewardsObserver":{{}},"rewardsProtector":{shares},"signers":{{}},"signersObserver":{{}},"signersProtector":{signers}}}"#
        );
        assert_eq!(epoch_reward_json(&after).into_string(), expected);
    }
}
