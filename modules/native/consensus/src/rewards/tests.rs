//! Rewards compared with the reference's answers for its own chains.

use tenon_sdk::shapes::epoch_reward_json;

use super::*;
use crate::{recorded_state::ModelledChain, test_data};

fn rewards_at(chain: &ModelledChain, settings: &NativeSettings, number: u64) -> Option<EpochRewards> {
    let header = chain.chain.at(number);
    of_block(settings, header, &*chain.state(number.saturating_sub(1)), chain, &SigningIndex::default()).unwrap()
}

/// Every recorded answer of `eth_getRewardByHash`, byte for byte: v1, the switch, epochs with penalties, changing
/// candidates, an epoch without signatures. Blocks that pay nothing return `{}`.
#[test]
fn pays_the_recorded_rewards() {
    let recorded = test_data::recorded_rewards();
    let local = ModelledChain::read("local");
    let chains = [("local", &local), ("v1switch", ModelledChain::v1switch()), ("staged", ModelledChain::staged())];

    for (name, chain) in chains {
        let settings = chain.chain.settings();
        for (number, answer) in recorded[name].as_object().unwrap() {
            let rewards = rewards_at(chain, &settings, number.parse().unwrap());

            let computed = rewards
                .map_or_else(|| "{}".to_owned(), |rewards| epoch_reward_json(&rewards.into_reply()).into_string());
            assert_eq!(computed, answer.as_str().unwrap(), "{name} {number}");
        }
    }
}

#[test]
fn only_checkpoints_but_the_first_and_epoch_switches_but_the_first_pay() {
    let chain = ModelledChain::v1switch();
    let settings = chain.chain.settings();

    let paying: Vec<u64> = (0..chain.chain.blocks.len() as u64)
        .filter(|number| pays_rewards(&settings, chain.chain.at(*number)).unwrap())
        .collect();

    assert_eq!(paying, [1_800, 2_700]);
}

#[test]
fn a_chain_without_a_foundation_pays_nothing() {
    let chain = ModelledChain::v1switch();
    let mut settings = chain.chain.settings();
    settings.consensus.foundation_wallet = Address::ZERO;

    assert_eq!(rewards_at(chain, &settings, 1_800), None);
}

/// The reference's quirk: both parts are written into one table, the foundation's last.
#[test]
fn an_owner_that_is_the_foundation_gets_a_tenth() {
    let chain = ModelledChain::v1switch();
    let mut settings = chain.chain.settings();
    let masternode = *v1_list(chain).first().unwrap();
    settings.consensus.foundation_wallet = owner_of(&*chain.state(1_799), masternode).unwrap();

    let rewards = rewards_at(chain, &settings, 1_800).unwrap();

    let share = rewards.signers[&masternode].reward / U256::from(10);
    assert_eq!(rewards.shares[&masternode][&settings.consensus.foundation_wallet], share);
    let credits: BTreeMap<Address, U256> = rewards.credits().into_iter().collect();
    assert_eq!(credits[&settings.consensus.foundation_wallet], share * U256::from(3));
}

fn v1_list(chain: &ModelledChain) -> Vec<Address> {
    crate::v1_masternodes(&chain.chain.at(0).extra_data)
}

/// One signer of one block; then two signers, one of one block and one of two (`docs/spec/consensus.md` 15.7).
#[test]
fn splits_like_the_published_cases() {
    let chain = ModelledChain::v1switch();
    let reward = U256::from(250) * U256::from(10).pow(U256::from(18));
    let wallet = Address::with_last_byte(0x68);
    let foundation = Foundation { wallet, keeps_both_parts: false };
    let state = chain.state(0);
    let masternode = *v1_list(chain).first().unwrap();
    let owner = owner_of(&*state, masternode).unwrap();

    for (total, signed, to_owner, to_foundation) in [
        (1_u64, 1_u64, "225000000000000000000", "25000000000000000000"),
        (3, 1, "74999999999999999999", "8333333333333333333"),
        (3, 2, "149999999999999999999", "16666666666666666666"),
    ] {
        let earned = reward / U256::from(total) * U256::from(signed);
        let shares = shares::shares(&*state, masternode, earned, foundation).unwrap();

        assert_eq!(shares[&owner].to_string(), to_owner);
        assert_eq!(shares[&wallet].to_string(), to_foundation);
    }
}

#[test]
fn names_the_block_that_is_missing() {
    let chain = ModelledChain::v1switch();
    let mut header = chain.chain.at(1_800).header().clone();
    header.parent_hash = B256::repeat_byte(1);

    let result = of_block(&chain.chain.settings(), &header, &*chain.state(1_799), chain, &SigningIndex::default());

    assert_eq!(result, Err(RewardError::MissingHeader { number: 1_799, hash: header.parent_hash }));
}
