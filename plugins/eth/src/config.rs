//! `eth_config`: the current and the next rules (EIP-7910).

use std::collections::BTreeMap;

use tenon_sdk::{prelude::*, shapes::JsonWriter};

use crate::{Answer, EthContext, dialect::ScheduleForm};

/// Precompiled contracts: name, last two bytes of the address, first fork.
const PRECOMPILES: [(&str, u16, ContractLevel); 18] = [
    ("ECREC", 0x01, ContractLevel::Frontier),
    ("SHA256", 0x02, ContractLevel::Frontier),
    ("RIPEMD160", 0x03, ContractLevel::Frontier),
    ("ID", 0x04, ContractLevel::Frontier),
    ("MODEXP", 0x05, ContractLevel::Byzantium),
    ("BN254_ADD", 0x06, ContractLevel::Byzantium),
    ("BN254_MUL", 0x07, ContractLevel::Byzantium),
    ("BN254_PAIRING", 0x08, ContractLevel::Byzantium),
    ("BLAKE2F", 0x09, ContractLevel::Istanbul),
    ("KZG_POINT_EVALUATION", 0x0a, ContractLevel::Cancun),
    ("BLS12_G1ADD", 0x0b, ContractLevel::Prague),
    ("BLS12_G1MSM", 0x0c, ContractLevel::Prague),
    ("BLS12_G2ADD", 0x0d, ContractLevel::Prague),
    ("BLS12_G2MSM", 0x0e, ContractLevel::Prague),
    ("BLS12_PAIRING_CHECK", 0x0f, ContractLevel::Prague),
    ("BLS12_MAP_FP_TO_G1", 0x10, ContractLevel::Prague),
    ("BLS12_MAP_FP2_TO_G2", 0x11, ContractLevel::Prague),
    ("P256VERIFY", 0x100, ContractLevel::Osaka),
];

/// System contracts: name, address, first fork. The deposit contract is the chain's own.
const SYSTEM_CONTRACTS: [(&str, Address, ContractLevel); 4] = [
    ("BEACON_ROOTS_ADDRESS", address!("0x000f3df6d732807ef1319fb7b8bb8522d0beac02"), ContractLevel::Cancun),
    ("HISTORY_STORAGE_ADDRESS", address!("0x0000f90827f1c53a10cb7a02335b175320002935"), ContractLevel::Prague),
    (
        "WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS",
        address!("0x00000961ef480eb55e80d19ad83579a64c007002"),
        ContractLevel::Prague,
    ),
    (
        "CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS",
        address!("0x0000bbddc7ce488642fb579f8b00f3a590007251"),
        ContractLevel::Prague,
    ),
];

/// The schedule of the chain: by time, or on native chains by height.
pub(crate) async fn config(context: EthContext) -> Answer {
    let mut json = JsonWriter::with_capacity(6_000);
    json.begin_object();
    if crate::dialect(&context).await?.schedule == ScheduleForm::ByHeight {
        let schedule = context.call(GetNativeSchedule).await?;
        write_native_rules(json.key("current"), schedule.chain_id, Some(&schedule.current));
        write_native_rules(json.key("next"), schedule.chain_id, schedule.next.as_ref());
        write_native_rules(json.key("last"), schedule.chain_id, schedule.last.as_ref());
    } else {
        let schedule = context.call(GetForkSchedule).await?;
        write_rules(json.key("current"), schedule.chain_id, Some(&schedule.current));
        write_rules(json.key("next"), schedule.chain_id, schedule.next.as_ref());
        write_rules(json.key("last"), schedule.chain_id, schedule.last.as_ref());
    }
    json.end_object();
    Ok(json)
}

/// The reference's members after v2.7.0 (`docs/spec/upgrades.md` 11.3).
fn write_native_rules(json: &mut JsonWriter, chain_id: u64, rules: Option<&NativeRules>) {
    let Some(rules) = rules else { return json.null() };
    json.begin_object();
    json.key("activationBlock").raw(&rules.activation.to_string());
    json.key("chainId").quantity(chain_id);
    json.key("forkId").data(rules.fork_id);
    json.key("activeForks");
    json.begin_list();
    rules.forks.iter().for_each(|name| json.string(name));
    json.end_list();
    let by_name =
        |contracts: &[(String, Address)]| contracts.iter().map(|(name, address)| (name.clone(), *address)).collect();
    write_contracts(json.key("precompiles"), by_name(&rules.precompiles));
    write_contracts(json.key("systemContracts"), by_name(&rules.system_contracts));
    json.end_object();
}

fn write_rules(json: &mut JsonWriter, chain_id: u64, rules: Option<&ForkRules>) {
    let Some(rules) = rules else { return json.null() };
    json.begin_object();
    json.key("activationTime").raw(&rules.activation.to_string());
    match rules.blobs {
        Some((target, max, fraction)) => {
            json.key("blobSchedule").begin_object();
            json.key("target").raw(&target.to_string());
            json.key("max").raw(&max.to_string());
            json.key("baseFeeUpdateFraction").raw(&fraction.to_string());
            json.end_object();
        }
        None => json.key("blobSchedule").null(),
    }
    json.key("chainId").quantity(chain_id);
    json.key("forkId").data(rules.fork_id);
    let precompiles = PRECOMPILES.iter().filter(|(.., since)| *since <= rules.contracts);
    let in_order = |(name, number, _): &(&'static str, u16, ContractLevel)| {
        (*name, Address::left_padding_from(&number.to_be_bytes()))
    };
    write_contracts(json.key("precompiles"), precompiles.map(in_order).collect());
    let system = SYSTEM_CONTRACTS.iter().filter(|(.., since)| *since <= rules.contracts);
    let mut system: BTreeMap<_, _> = system.map(|(name, address, _)| (*name, *address)).collect();
    if let Some(deposits) = rules.deposit_contract {
        system.insert("DEPOSIT_CONTRACT_ADDRESS", deposits);
    }
    write_contracts(json.key("systemContracts"), system);
    json.end_object();
}

/// Names in alphabetical order.
fn write_contracts<N: Ord + AsRef<str>>(json: &mut JsonWriter, contracts: BTreeMap<N, Address>) {
    json.begin_object();
    for (name, address) in contracts {
        json.key(name.as_ref()).data(address);
    }
    json.end_object();
}
