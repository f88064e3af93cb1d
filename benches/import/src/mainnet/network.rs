//! Block 0: the contracts of a public network, its masternodes as candidates of the voting contract, and the accounts.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, U256, hex, keccak256};
use serde_json::{Value, json};
use tenon_chain::{Genesis, GenesisAccount, candidate_record, element_slot, mapping_slot, variable_slot as slot};
use tenon_native_consensus::v2::MasternodeKey;
use tenon_native_spec::{DevelopmentEngine, NATIVE_DEVELOPMENT_CHAIN, NativeDevelopment, read_genesis};

use super::Plan;
use crate::{
    Outcome,
    heavy::{WRITER, WRITER_ADDRESS, resident},
};

pub(crate) const CHAIN_ID: u64 = NATIVE_DEVELOPMENT_CHAIN;
const GAS_LIMIT: u64 = 84_000_000;
/// Seconds between two blocks.
const PERIOD: u64 = 2;
/// Coins that an epoch pays.
const REWARD: u64 = 5_000;
const COIN: u64 = 1_000_000_000_000_000_000;
/// Stake of the first masternode, coins; each further one has a coin less, so that their order is fixed.
const STAKE: u64 = 10_000_000;
/// Maximum number of validators in the contract.
const MAX_VALIDATORS: u64 = 150;

/// The keys of the masternodes, in the order of their stakes.
pub(crate) fn masternodes(count: usize) -> Outcome<Vec<MasternodeKey>> {
    let key = |number: usize| MasternodeKey::from_bytes(keccak256(format!("masternode {number}")).0);
    (0..count).map(|number| Ok(key(number).ok_or("not a key")?)).collect()
}

/// The rules and contracts of block 0, without the residents.
pub(crate) fn rules(plan: &Plan, senders: &[Address]) -> Outcome<Vec<u8>> {
    let keys = masternodes(plan.masternodes)?;
    let first = keys.first().ok_or("no masternode")?.address();
    let network = NativeDevelopment {
        engine: DevelopmentEngine::V2 { epoch: plan.epoch },
        gas_limit: GAS_LIMIT,
        masternode: first,
        owner: first,
        foundation: Address::repeat_byte(0xf0),
        reward: REWARD,
        accounts: senders.to_vec(),
        balance: coins(1_000_000_000),
    };
    let mut file: Value = serde_json::from_slice(&network.to_json()?)?;
    let engine = &mut file["config"]["XDPoS"];
    engine["period"] = json!(PERIOD);
    let round = &mut engine["v2"]["config"];
    round["maxMasternodes"] = json!(plan.masternodes);
    round["minePeriod"] = json!(PERIOD);
    let round = round.clone();
    engine["v2"]["allConfigs"] = json!({ "0": round });
    let listed: Vec<u8> = keys.iter().flat_map(|key| key.address().0.0).collect();
    file["extraData"] = json!(hex::encode_prefixed([&[0; 32][..], &listed, &[0; 65]].concat()));
    let slots = voting_contract(&keys).into_iter().map(|(slot, value)| (slot.to_string(), json!(B256::from(value))));
    let stakes = (0..keys.len() as u64).fold(U256::ZERO, |sum, place| sum + stake(place));
    let contract = &mut file["alloc"][format!("{:#x}", Address::with_last_byte(0x88))];
    contract["storage"] = Value::Object(slots.collect());
    contract["balance"] = json!(format!("{stakes:#x}"));
    file["alloc"][format!("{WRITER_ADDRESS:#x}")] = json!({ "balance": "0x0", "code": format!("0x{WRITER}") });
    Ok(serde_json::to_vec_pretty(&file)?)
}

/// Block 0 with every account.
pub(crate) fn genesis(plan: &Plan, rules: &[u8]) -> Outcome<Genesis> {
    let mut genesis = read_genesis(rules)?;
    let account = || GenesisAccount { balance: U256::from(COIN), ..GenesisAccount::default() };
    genesis.alloc.extend((0..plan.accounts).map(|position| (resident(position), account())));
    Ok(genesis)
}

fn stake(place: u64) -> U256 {
    coins(STAKE - place)
}

fn coins(count: u64) -> U256 {
    U256::from(count) * U256::from(COIN)
}

/// Storage of the voting contract with these candidates, each its own owner (`docs/spec/chain.md` 10.1).
fn voting_contract(keys: &[MasternodeKey]) -> BTreeMap<B256, U256> {
    let count = U256::from(keys.len());
    let mut slots = BTreeMap::from([
        (slot(7), count),
        (slot(8), count),
        (slot(9), count),
        (slot(10), count),
        (slot(11), coins(1_000)),
        (slot(12), coins(10)),
        (slot(13), U256::from(MAX_VALIDATORS)),
        (slot(14), U256::from(30)),
        (slot(15), U256::from(10)),
    ]);
    for (place, key) in (0_u64..).zip(keys) {
        let (address, stake) = (key.address().into_word(), stake(place));
        let listed: U256 = address.into();
        let record: U256 = candidate_record(key.address()).into();
        let field = |offset: u64| B256::from(record.wrapping_add(U256::from(offset)));
        let (voters, owned) = (mapping_slot(address, U256::from(2)), mapping_slot(address, U256::from(6)));
        slots.extend([
            (element_slot(slot(7), place), listed),
            (element_slot(slot(8), place), listed),
            (field(0), U256::ONE << 160 | listed),
            (field(1), stake),
            (mapping_slot(address, field(2).into()), stake),
            (voters, U256::ONE),
            (element_slot(voters, 0), listed),
            (owned, U256::ONE),
            (element_slot(owned, 0), listed),
        ]);
    }
    slots
}
