//! The names of chains in the block tests.

use std::collections::BTreeMap;

use alloy_primitives::{Address, U256, address};
use serde::Deserialize;
use tenon_chain::{Activation, BlobParameters, ChainSpec, Fork};

use crate::{lenient::Number, outcome::Unmet};

/// The suites' chain, unless they name another.
pub(crate) const CHAIN_ID: u64 = 1;

/// The deposit contract of chain 1, which the suites use (EIP-6110).
const DEPOSIT_CONTRACT: Address = address!("00000000219ab540356cBB839Cbe05303d7705Fa");

/// Parameters of the chain that newer cases specify in addition to its forks.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct ConfigFile {
    chainid: Option<Number>,
    #[serde(rename = "blobSchedule")]
    blob_schedule: BTreeMap<String, BlobFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlobFile {
    target: Number,
    max: Number,
    base_fee_update_fraction: Number,
}

impl ConfigFile {
    /// The chain's number.
    pub(crate) fn chain_id(&self) -> u64 {
        self.chainid.map_or(CHAIN_ID, Number::to_u64)
    }

    /// These rules with the case's changes.
    pub(crate) fn apply(&self, spec: ChainSpec) -> Result<ChainSpec, Unmet> {
        let entry = |(name, file): (&String, &BlobFile)| {
            let fork = Fork::from_name(name).ok_or_else(|| unknown(name))?;
            let update_fraction = file.base_fee_update_fraction.to_u64();
            Ok((fork, BlobParameters { target: file.target.to_u64(), max: file.max.to_u64(), update_fraction }))
        };
        let schedule = self.blob_schedule.iter().map(entry).collect::<Result<Vec<_>, Unmet>>()?;
        let mut spec = spec.with_blob_schedule(schedule);
        (spec.chain_id, spec.network_id) = (self.chain_id(), self.chain_id());
        Ok(spec)
    }
}

/// The rules of a chain with this fork, and all before it, from genesis on.
pub(crate) fn at_fork(name: &str) -> Result<(Fork, ChainSpec), Unmet> {
    let fork = Fork::from_name(name).ok_or_else(|| unknown(name))?;
    Ok((fork, with_deposits(ChainSpec::ethereum_at(CHAIN_ID, fork))))
}

fn with_deposits(mut spec: ChainSpec) -> ChainSpec {
    spec.deposit_contract = Some(DEPOSIT_CONTRACT);
    spec
}

/// The rules of a network: one fork from genesis on, or two with a transition between them, `XToYAtZ`.
pub(crate) fn spec(name: &str) -> Result<ChainSpec, Unmet> {
    let Some((before, rest)) = name.split_once("To") else { return Ok(at_fork(name)?.1) };
    let (after, at) = rest.split_once("At").ok_or_else(|| unknown(name))?;
    let activation = activation(at).ok_or_else(|| unknown(name))?;
    let (before, base) = at_fork(before)?;
    if after == "Dao" {
        let Activation::Block(block) = activation else { return Err(unknown(name)) };
        let mut spec = base;
        (spec.dao_fork_block, spec.dao_fork_support) = (Some(block), true);
        return Ok(spec);
    }
    let after = Fork::from_name(after).ok_or_else(|| unknown(name))?;
    let between = Fork::ALL.iter().copied().filter(|fork| *fork > before && *fork <= after);
    let new = between.map(|fork| (fork, activation));
    Ok(with_deposits(ChainSpec::ethereum(CHAIN_ID, base.activations().iter().copied().chain(new))))
}

fn activation(text: &str) -> Option<Activation> {
    if let Some(time) = text.strip_prefix("Time") {
        let (digits, unit) = time.strip_suffix('k').map_or((time, 1), |digits| (digits, 1000));
        return digits.parse::<u64>().ok()?.checked_mul(unit).map(Activation::Time);
    }
    if let Some(difficulty) = text.strip_prefix("Diff") {
        return U256::from_str_radix(difficulty, 16).ok().map(Activation::TotalDifficulty);
    }
    text.parse().ok().map(Activation::Block)
}

fn unknown(name: &str) -> Unmet {
    Unmet::NotBuilt(format!("the rules of {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transitions_keep_the_older_forks_and_add_those_between() {
        let spec = spec("ShanghaiToCancunAtTime15k").unwrap();

        assert_eq!(spec.fork_at(1, 14_999), Fork::Shanghai);
        assert_eq!(spec.fork_at(1, 15_000), Fork::Cancun);
        assert_eq!(super::spec("EIP158ToByzantiumAt5").unwrap().fork_at(4, 0), Fork::SpuriousDragon);
        assert_eq!(super::spec("EIP158ToByzantiumAt5").unwrap().fork_at(5, 0), Fork::Byzantium);
        assert!(super::spec("HomesteadToAtlantisAt5").is_err());
    }

    #[test]
    fn a_case_may_name_its_chain_and_what_its_blobs_cost() {
        let schedule = r#"{ "Osaka": { "target": "0x15", "max": 32, "baseFeeUpdateFraction": "0x013a7aa1" } }"#;
        let config: ConfigFile =
            serde_json::from_str(&format!(r#"{{ "network": "x", "chainid": "0x05", "blobSchedule": {schedule} }}"#))
                .unwrap();

        let (_, spec) = at_fork("Osaka").unwrap();
        let changed = config.apply(spec.clone()).unwrap();

        let wanted = BlobParameters { target: 21, max: 32, update_fraction: 0x013a_7aa1 };
        assert_eq!(changed.blob_parameters_of(Fork::Osaka), Some(wanted));
        assert_eq!(changed.blob_parameters_of(Fork::Prague), spec.blob_parameters_of(Fork::Prague));
        assert_eq!((changed.chain_id, spec.chain_id), (5, 1));
        let strange: ConfigFile =
            serde_json::from_str(&format!(r#"{{ "blobSchedule": {schedule} }}"#).replace("Osaka", "Moon")).unwrap();
        assert!(strange.apply(spec).is_err());
    }
}
