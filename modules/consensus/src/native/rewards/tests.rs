//! Rewards against the answers that the reference gave for its own chains.

use super::*;
use crate::native::recorded_state::ModelledChain;

/// `eth_getRewardByHash` of the two blocks of the chain that pay: the last v1 block, and the second v2 epoch switch.
const RECORDED: [(u64, &str); 2] = [
    (
        1_800,
        r#"{"rewards":{"0x29bb8adaaec585b4d437e1997a4ba60bde226f13":{"0xa622d5eec281ee0cc6761edea233be9de85bfd63":1499999999999999999958,"0xc957f3642988576e4f4b688d8f36d4d1d9feeca6":0,"0xd0e7858bfb647ed3108f3bccc532eb1cad6a27f1":166666666666666666662},"0xa3fc6fadee7e2f04fc425ee36ca8984d67fc40f5":{"0xa622d5eec281ee0cc6761edea233be9de85bfd63":1499999999999999999958,"0xd0e7858bfb647ed3108f3bccc532eb1cad6a27f1":166666666666666666662},"0xe28279b6430b6f4934fb7174a7bdcdabb95b9c69":{"0xa622d5eec281ee0cc6761edea233be9de85bfd63":1499999999999999999958,"0xd0e7858bfb647ed3108f3bccc532eb1cad6a27f1":166666666666666666662}},"signers":{"0x29bb8adaaec585b4d437e1997a4ba60bde226f13":{"reward":1666666666666666666620,"sign":60},"0xa3fc6fadee7e2f04fc425ee36ca8984d67fc40f5":{"reward":1666666666666666666620,"sign":60},"0xe28279b6430b6f4934fb7174a7bdcdabb95b9c69":{"reward":1666666666666666666620,"sign":60}}}"#,
    ),
    (
        2_700,
        r#"{"rewards":{"0x29bb8adaaec585b4d437e1997a4ba60bde226f13":{"0xa622d5eec281ee0cc6761edea233be9de85bfd63":1124999999999999999951,"0xc957f3642988576e4f4b688d8f36d4d1d9feeca6":0,"0xd0e7858bfb647ed3108f3bccc532eb1cad6a27f1":124999999999999999994},"0xa3fc6fadee7e2f04fc425ee36ca8984d67fc40f5":{"0xa622d5eec281ee0cc6761edea233be9de85bfd63":1124999999999999999951,"0xd0e7858bfb647ed3108f3bccc532eb1cad6a27f1":124999999999999999994},"0xe28279b6430b6f4934fb7174a7bdcdabb95b9c69":{"0xa622d5eec281ee0cc6761edea233be9de85bfd63":1124999999999999999951,"0xd0e7858bfb647ed3108f3bccc532eb1cad6a27f1":124999999999999999994},"0xe6d28308f6571cc59df62205dc99bae4c37b4c0b":{"0xc957f3642988576e4f4b688d8f36d4d1d9feeca6":0,"0xd0e7858bfb647ed3108f3bccc532eb1cad6a27f1":124999999999999999994,"0xee8e6ddf7f70388ab636739023cfe9d0e8fb3d40":1124999999999999999951}},"signers":{"0x29bb8adaaec585b4d437e1997a4ba60bde226f13":{"reward":1249999999999999999946,"sign":59},"0xa3fc6fadee7e2f04fc425ee36ca8984d67fc40f5":{"reward":1249999999999999999946,"sign":59},"0xe28279b6430b6f4934fb7174a7bdcdabb95b9c69":{"reward":1249999999999999999946,"sign":59},"0xe6d28308f6571cc59df62205dc99bae4c37b4c0b":{"reward":1249999999999999999946,"sign":59}}}"#,
    ),
];

fn rewards_at(chain: &ModelledChain, settings: &NativeSettings, number: u64) -> Option<EpochRewards> {
    let header = chain.chain.at(number);
    of_block(settings, header, &*chain.state(number - 1), chain, &SigningIndex::default()).unwrap()
}

#[test]
fn pays_what_the_reference_recorded_for_v1_and_v2() {
    let chain = ModelledChain::v1switch();
    let settings = chain.chain.settings();

    for (number, recorded) in RECORDED {
        assert_eq!(rewards_at(chain, &settings, number).unwrap().to_json(), recorded, "{number}");
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

/// The quirk of the reference: both parts are written into one table, the foundation's last.
#[test]
fn an_owner_that_is_the_foundation_keeps_a_tenth() {
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
    crate::native::v1_masternodes(&chain.chain.at(0).extra_data)
}

/// One signer of one block; then two signers, one of one block and one of two (`spec/consensus.md` 15.7).
#[test]
fn splits_as_the_published_cases_do() {
    let chain = ModelledChain::v1switch();
    let reward = U256::from(250) * U256::from(10).pow(U256::from(18));
    let foundation = Address::with_last_byte(0x68);
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
        assert_eq!(shares[&foundation].to_string(), to_foundation);
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
