//! Rewards from `tipUpgradeReward` on, over a chain made for them: epochs of 20 rounds, a block in every round
//! (`docs/spec/upgrades.md` 3, 4, 13).

use std::{collections::HashMap, sync::Arc};

use alloy_primitives::{Bytes, b256};
use tenon_api::{Account, BlockNumber, NativeSeal, RecoveredBlock, SealedHeader, Transaction, TransactionPayload};
use tenon_api::{AccountRecord, TransactionSignature};
use tenon_chain::{Genesis, assemble_block};
use tenon_native_spec::{NativeSettings, PublicNetwork, read_genesis};
use tenon_sdk::shapes::epoch_reward_json;

use super::*;
use crate::{
    extra::ExtraFields,
    messages::{BlockInfo, QuorumCertificate},
    recorded_chain::RecordedChain,
    recorded_state::RecordedState,
    signing::BLOCK_SIGNERS,
};

const EPOCH: u64 = 20;
/// Number of the first v2 epoch (`SwitchEpoch`).
const FIRST_EPOCH: u64 = 7;
const FOUNDATION: Address = Address::with_last_byte(0xf0);

/// Node `n`; candidates own themselves.
const fn node(n: u8) -> Address {
    Address::with_last_byte(n)
}

fn network(height: u64, switch_block: u64, rewards: [f64; 3]) -> (Genesis, NativeSettings) {
    let [masternode, protector, observer] = rewards;
    let extra = [&[0; 32][..], &concatenated(&[1, 2, 3]), &[0; 65]].concat();
    let text = serde_json::json!({
        "config": { "chainId": 5151, "tipUpgradeRewardBlock": height, "XDPoS": {
            "period": 1, "epoch": EPOCH, "gap": 10, "reward": 300, "rewardCheckpoint": EPOCH,
            "foundationWalletAddr": FOUNDATION, "v2": { "switchBlock": switch_block, "SwitchEpoch": FIRST_EPOCH, "allConfigs": {
                "0": { "maxMasternodes": 3, "minePeriod": 1, "certificateThreshold": 0.667 },
                "60": { "maxMasternodes": 3, "minePeriod": 1, "certificateThreshold": 0.667,
                    "maxProtectorNodes": 2, "maxObserverNodes": 1, "masternodeReward": masternode,
                    "protectorReward": protector, "observerReward": observer },
            } } } },
        "extraData": alloy_primitives::hex::encode_prefixed(extra), "difficulty": "0x1", "gasLimit": "0x2faf080", "alloc": {},
    });
    let genesis = read_genesis(text.to_string().as_bytes()).unwrap();
    let settings = NativeSettings::of(&genesis.spec).cloned().unwrap();
    (genesis, settings)
}

fn concatenated(nodes: &[u8]) -> Vec<u8> {
    nodes.iter().flat_map(|n| node(*n).0.0).collect()
}

fn signing(signer: Address, hash: B256) -> (Arc<Transaction>, Address) {
    let transaction = Transaction {
        hash: B256::ZERO,
        chain_id: None,
        nonce: 0,
        gas_limit: 0,
        to: Some(BLOCK_SIGNERS),
        value: U256::ZERO,
        input: [&[0xe3, 0x41, 0xea, 0xa4][..], &[0; 32], hash.as_slice()].concat().into(),
        payload: TransactionPayload::Legacy { gas_price: U256::ZERO },
        signature: TransactionSignature { v: 27, r: U256::ZERO, s: U256::ZERO },
    };
    (Arc::new(transaction), signer)
}

/// A chain up to a block. `signers` sign each block that is a multiple of 15 in the next one; node 5 is penalised in
/// every epoch.
fn chain(genesis: &Genesis, last: u64, signers: &[u8]) -> RecordedChain {
    let first = genesis.sealed_header().unwrap();
    let block = RecoveredBlock { block: assemble_block(first, Vec::new(), Vec::new(), None), senders: Vec::new() };
    let mut chain = RecordedChain::starting_at(Arc::clone(&genesis.spec), block);
    for number in 1..=last {
        let header = header(chain.at(number - 1), number);
        let signed = if (number - 1).is_multiple_of(15) { signers } else { &[] };
        let hash = chain.at(number - 1).hash();
        let (transactions, senders) = signed.iter().map(|n| signing(node(*n), hash)).unzip();
        chain.push(RecoveredBlock { block: assemble_block(header, transactions, Vec::new(), None), senders });
    }
    chain
}

fn header(parent: &SealedHeader, number: u64) -> SealedHeader {
    let block = BlockInfo { hash: parent.hash(), round: number - 1, number: number - 1 };
    let extra =
        ExtraFields { round: number, quorum: QuorumCertificate { block, signatures: Vec::new(), gap_number: 0 } };
    let is_switch = number == 1 || number.is_multiple_of(EPOCH);
    let lists = |nodes: &[u8]| if is_switch { Bytes::from(concatenated(nodes)) } else { Bytes::new() };
    tenon_chain::seal(Header {
        parent_hash: parent.hash(),
        number,
        extra_data: extra.encode(),
        native_seal: Some(NativeSeal {
            validators: lists(&[1, 2, 3]),
            penalties: lists(&[5]),
            ..NativeSeal::default()
        }),
        base_fee_per_gas: (number != 55).then_some(1_000 + number),
        gas_used: 10 * number,
        ..Header::default()
    })
}

/// The validator contract, and the account of the record.
#[derive(Clone, Default)]
struct State {
    contract: RecordedState,
    nonce: u64,
    record: HashMap<B256, U256>,
}

impl State {
    /// Candidates in the contract's order, with their stakes in coins.
    fn of(candidates: &[(u8, u64)]) -> Self {
        let mut state = Self::default();
        candidates.iter().for_each(|(n, coins)| state.contract.add_candidate(node(*n), *coins));
        state
    }

    fn keep(&mut self, record: &AccountRecord) {
        self.nonce = record.nonce;
        self.record.extend(record.slots.iter().copied());
    }
}

impl StateReader for State {
    fn account(&self, address: Address) -> Result<Option<Account>, StoreError> {
        Ok((address == SUPPLY_RECORD && self.nonce > 0).then(|| Account { nonce: self.nonce, ..Account::default() }))
    }

    fn storage(&self, address: Address, slot: B256) -> Result<U256, StoreError> {
        if address == SUPPLY_RECORD {
            return Ok(self.record.get(&slot).copied().unwrap_or_default());
        }
        self.contract.storage(address, slot)
    }

    fn code(&self, _: B256) -> Result<Option<Bytes>, StoreError> {
        Ok(None)
    }

    fn block_hash(&self, _: BlockNumber) -> Result<Option<B256>, StoreError> {
        Ok(None)
    }
}

/// Masternodes have the largest stakes; 7 and 8 have equal ones.
const CANDIDATES: [(u8, u64); 8] = [(9, 40), (1, 100), (2, 100), (8, 50), (3, 100), (7, 50), (5, 90), (4, 60)];
const ALL: [u8; 8] = [1, 2, 3, 4, 5, 7, 8, 9];
const RATES: [f64; 3] = [63.42, 50.27, 25.13];

fn rewards(chain: &RecordedChain, settings: &NativeSettings, number: u64, state: &State) -> EpochRewards {
    of_block(settings, chain.at(number), state, &**chain, &SigningIndex::default()).unwrap().unwrap()
}

fn upgraded(rewards: &EpochRewards) -> &UpgradedRewards {
    rewards.upgraded.as_ref().unwrap()
}

fn members(signers: &BTreeMap<Address, SignerReward>) -> Vec<u8> {
    signers.keys().map(|address| address.0[19]).collect()
}

fn amounts(wei: [&str; 3]) -> [U256; 3] {
    wei.map(|wei| wei.parse().unwrap())
}

// 3.1; amounts of 3.2.
#[test]
fn pays_each_member_of_a_role_its_fixed_amount() {
    let (genesis, settings) = network(0, 0, RATES);
    let chain = chain(&genesis, 60, &ALL);

    let rewards = rewards(&chain, &settings, 60, &State::of(&CANDIDATES));

    let roles = upgraded(&rewards);
    assert_eq!(members(&rewards.signers), [1, 2, 3]);
    // Node 5 has a larger stake, but is penalised; 7 and 8 have equal stakes, and the one that the contract lists first
    // is chosen.
    assert_eq!(members(&roles.protectors.signers), [4, 8]);
    assert_eq!(members(&roles.observers.signers), [7]);
    let [masternode, protector, observer] =
        amounts(["63420000000000001704", "50270000000000003128", "25129999999999999006"]);
    for (signers, reward) in
        [(&rewards.signers, masternode), (&roles.protectors.signers, protector), (&roles.observers.signers, observer)]
    {
        // Block 30 is the only counted block.
        assert!(signers.values().all(|earned| *earned == SignerReward { signed: 1, reward }), "{signers:?}");
    }
    let split = |shares: &BTreeMap<Address, BTreeMap<Address, U256>>, n| {
        let shares = &shares[&node(n)];
        assert_eq!(shares.len(), 2);
        [shares[&node(n)], shares[&FOUNDATION]].map(|wei| wei.to_string())
    };
    assert_eq!(split(&rewards.shares, 1), ["57078000000000001533", "6342000000000000170"]);
    assert_eq!(split(&roles.protectors.shares, 8), ["45243000000000002815", "5027000000000000312"]);
    assert_eq!(split(&roles.observers.shares, 7), ["22616999999999999105", "2512999999999999900"]);
    let credits: BTreeMap<Address, U256> = rewards.credits().into_iter().collect();
    let [of_masternode, of_protector, of_observer] =
        amounts(["6342000000000000170", "5027000000000000312", "2512999999999999900"]);
    assert_eq!(credits.len(), 7);
    assert_eq!(credits[&FOUNDATION], of_masternode * U256::from(3) + of_protector * U256::from(2) + of_observer);
}

#[test]
fn pays_only_members_that_signed_a_counted_block_and_no_replacements() {
    let (genesis, settings) = network(0, 0, RATES);
    let chain = chain(&genesis, 60, &[2, 7, 8, 9]);

    let rewards = rewards(&chain, &settings, 60, &State::of(&CANDIDATES));

    assert_eq!(members(&rewards.signers), [2]);
    assert_eq!(members(&upgraded(&rewards).protectors.signers), [8], "4 has not signed");
    assert_eq!(members(&upgraded(&rewards).observers.signers), [7]);
}

// 3.1 step 5.
#[test]
fn the_number_of_signed_blocks_does_not_change_the_amount() {
    let (genesis, mut settings) = network(0, 0, RATES);
    // Twice as long: blocks 45, 60 and 75 are counted.
    settings.consensus.epoch = 2 * EPOCH;
    let chain = chain(&genesis, 120, &ALL);

    let rewards = rewards(&chain, &settings, 120, &State::of(&CANDIDATES));

    let [reward, ..] = amounts(["63420000000000001704", "50270000000000003128", "25129999999999999006"]);
    assert_eq!(rewards.signers[&node(1)], SignerReward { signed: 3, reward });
}

/// The roles are those of the block's own round, not of the epoch that is paid.
#[test]
fn the_parameters_are_those_of_the_paying_blocks_round() {
    let (genesis, settings) = network(0, 0, RATES);
    let chain = chain(&genesis, 60, &ALL);

    let rewards = rewards(&chain, &settings, 40, &State::of(&CANDIDATES));

    // Round 40 has an entry without rewards and roles; its masternodes are those of block 0.
    assert_eq!(members(&rewards.signers), [1, 2, 3]);
    assert!(rewards.signers.values().all(|earned| earned.reward.is_zero()));
    assert!(upgraded(&rewards).protectors.signers.is_empty() && upgraded(&rewards).observers.signers.is_empty());
    assert!(rewards.credits().iter().all(|(_, wei)| wei.is_zero()));
}

#[test]
fn before_the_height_rewards_are_shared_and_nothing_is_recorded() {
    let chain_of = |height| {
        let (genesis, settings) = network(height, 0, RATES);
        (chain(&genesis, 60, &ALL), settings)
    };
    let (before, settings) = chain_of(61);
    let rewards_before = rewards(&before, &settings, 60, &State::of(&CANDIDATES));
    assert_eq!(rewards_before.upgraded, None);
    assert_eq!(rewards_before.signers[&node(1)].reward, U256::from(100) * U256::from(10).pow(U256::from(18)));
    assert!(rewards_before.clone().into_block_rewards().record.is_none());
    assert!(rewards_before.into_reply().others.is_none());
    let (at, settings) = chain_of(60);
    assert!(rewards(&at, &settings, 60, &State::of(&CANDIDATES)).upgraded.is_some());
}

// 3.2: from the height on the sum, before it the overwrite.
#[test]
fn an_owner_that_is_the_foundation_gets_both_parts_from_the_height_on() {
    for (height, wanted) in [(60, "63420000000000001703"), (61, "10000000000000000000")] {
        let (genesis, mut settings) = network(height, 0, RATES);
        settings.consensus.foundation_wallet = node(1);
        let chain = chain(&genesis, 60, &ALL);
        let rewards = rewards(&chain, &settings, 60, &State::of(&CANDIDATES));
        assert_eq!(rewards.shares[&node(1)], BTreeMap::from([(node(1), wanted.parse().unwrap())]), "{height}");
    }
}

#[test]
fn the_report_has_six_members() {
    let (genesis, settings) = network(0, 0, [1.0, 2.0, 3.0]);
    let chain = chain(&genesis, 60, &[4]);

    let report = rewards(&chain, &settings, 60, &State::of(&CANDIDATES)).into_reply();
    let report = epoch_reward_json(&report).into_string();

    let (node, foundation) = (format!("{:#x}", node(4)), format!("{FOUNDATION:#x}"));
    assert_eq!(
        report,
        format!(
            "{{\"rewards\":{{}},\"rewardsObserver\":{{}},\"rewardsProtector\":{{\"{node}\":{{\"{node}\":1800000000000000000,\
             \"{foundation}\":200000000000000000}}}},\"signers\":{{}},\"signersObserver\":{{}},\
             \"signersProtector\":{{\"{node}\":{{\"reward\":2000000000000000000,\"sign\":1}}}}}}"
        )
    );
}

/// Base fees of these blocks; block 55 has none.
fn burned(blocks: std::ops::RangeInclusive<u64>) -> U256 {
    U256::from(blocks.filter(|number| *number != 55).map(|number| (1_000 + number) * 10 * number).sum::<u64>())
}

fn slot(kind: u8, epoch: u64) -> B256 {
    let mut slot = B256::from(U256::from(epoch));
    slot.0[0] = kind;
    slot
}

// 4: minted is what was credited after all truncations, burned the base fees from the parent back to the first switch.
#[test]
fn the_record_begins_with_the_first_reward_and_adds_each_later_one() {
    let (genesis, settings) = network(0, 0, RATES);
    let chain = chain(&genesis, 80, &ALL);
    let mut state = State::of(&CANDIDATES);

    // No second epoch switch before block 20: there are no rewards, and the record is written.
    let first = rewards(&chain, &settings, 20, &state);
    assert!(first.credits().is_empty());
    let record = &upgraded(&first).record;
    assert_eq!((record.account, record.nonce), (node(0x9a), 1));
    assert_eq!(
        record.slots,
        [
            (slot(0, 1), U256::from(FIRST_EPOCH + 1)),
            (slot(0, 2), U256::from(20)),
            (slot(1, FIRST_EPOCH + 1), U256::ZERO),
            (slot(2, FIRST_EPOCH + 1), burned(1..=19)),
            (slot(3, FIRST_EPOCH + 1), U256::from(20)),
        ]
    );
    state.keep(record);

    // The epoch of block 40 has no record, as if it had no block: the newest one before is continued.
    let second = rewards(&chain, &settings, 60, &state);
    let minted: U256 = second.credits().into_iter().map(|(_, wei)| wei).sum();
    let record = &upgraded(&second).record;
    assert_eq!(record.nonce, 2);
    assert_eq!(
        record.slots,
        [
            (slot(1, FIRST_EPOCH + 3), minted),
            (slot(2, FIRST_EPOCH + 3), burned(1..=19) + burned(40..=59)),
            (slot(3, FIRST_EPOCH + 3), U256::from(60)),
        ]
    );
    // Each of the six amounts loses one wei by its truncations (3.2).
    let amounts = amounts(["63420000000000001704", "50270000000000003128", "25129999999999999006"]);
    let whole = amounts[0] * U256::from(3) + amounts[1] * U256::from(2) + amounts[2];
    assert_eq!(minted, whole - U256::from(6));
    state.keep(record);

    let third = rewards(&chain, &settings, 80, &state);
    let record = &upgraded(&third).record;
    assert_eq!(record.slots[0], (slot(1, FIRST_EPOCH + 4), minted + minted));
    assert_eq!(record.slots[1].1, burned(1..=19) + burned(40..=79));
}

/// A chain whose first v2 epoch has number 0 continues its record too.
#[test]
fn the_record_of_epoch_0_is_found() {
    let (genesis, mut settings) = network(0, 0, [0.0; 3]);
    settings.consensus.switch_epoch = 0;
    let chain = chain(&genesis, 60, &ALL);
    let mut state = State { nonce: 1, ..State::of(&CANDIDATES) };
    state.record.insert(slot(1, 0), U256::from(7));

    let rewards = rewards(&chain, &settings, 60, &state);

    assert_eq!(upgraded(&rewards).record.slots[0], (slot(1, 3), U256::from(7)));
}

#[test]
fn the_totals_stop_at_the_largest_number() {
    let (genesis, settings) = network(0, 0, RATES);
    let chain = chain(&genesis, 60, &ALL);
    let mut state = State { nonce: 5, ..State::of(&CANDIDATES) };
    state.record.insert(slot(1, 2), U256::MAX - U256::from(1));
    state.record.insert(slot(2, 2), U256::MAX);

    let rewards = rewards(&chain, &settings, 60, &state);

    let record = &upgraded(&rewards).record;
    assert_eq!((record.nonce, record.slots[0].1, record.slots[1].1), (6, U256::MAX, U256::MAX));
}

// 13.4: the first reward of testnet.
#[test]
fn the_first_record_of_testnet_has_the_published_epoch() {
    let settings = NativeSettings::of(&PublicNetwork::Testnet.genesis().unwrap().spec).cloned().unwrap();
    let supply = record::Supply { minted: U256::from(1), burned: U256::from(2) };

    let record = record::of_reward(&settings.consensus, 83_601_000, 30_427 * 900, &supply, &State::default()).unwrap();

    assert_eq!(record.slots[0], (slot(0, 1), U256::from(0x16d82)));
    let minted = b256!("0100000000000000000000000000000000000000000000000000000000016d82");
    assert_eq!(record.slots[2], (minted, U256::from(1)));
}

/// The rewards of engine v1 stay shared; only the foundation's parts are added up (3.2).
#[test]
fn rewards_of_engine_v1_have_no_roles() {
    let (genesis, settings) = network(0, 60, RATES);
    let chain = chain(&genesis, 60, &ALL);
    let rewards = rewards(&chain, &settings, 60, &State::of(&CANDIDATES));
    assert_eq!(rewards.upgraded, None);
}
