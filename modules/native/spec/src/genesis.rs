//! The native members of a genesis file's `config` (`docs/spec/chain.md` 7, `docs/spec/upgrades.md` 2.3).

use serde::Deserialize;
use serde_json::Value;
use tenon_chain::genesis::{ConfigText, FamilyConfig, GenesisFamily, LenientAddress, Number64};
use tenon_chain::spec::SpecFamily;
use tenon_chain::{Genesis, GenesisError};

use crate::heights::FileHeights;
use crate::settings::{EngineFile, FileContracts, FileRules};
use crate::{NativeConfigError, NativeSettings};

/// Reads the genesis file of a native chain, or of a chain with Ethereum's rules. Unknown members are ignored, except
/// rules of a native chain: they are refused, because the chain would have other rules than its file says.
///
/// # Errors
/// [`GenesisError`].
pub fn read_genesis(text: &[u8]) -> Result<Genesis, GenesisError> {
    Genesis::from_json_of(text, &[&NativeFamily])
}

/// The family of native chains: files with an `XDPoS` member.
#[derive(Clone, Copy, Debug)]
pub struct NativeFamily;

impl GenesisFamily for NativeFamily {
    fn read(&self, config: &ConfigText<'_>) -> Result<Option<Box<dyn FamilyConfig>>, GenesisError> {
        let file: ConfigFile = config.read()?;
        if !file.is_native() {
            return Ok(None);
        }
        config.check_member::<EngineFile>("XDPoS")?;
        refuse_unknown_rules(config)?;
        Ok(Some(Box::new(file)))
    }
}

/// Refuses a rule that this release does not know, with its place.
fn refuse_unknown_rules(config: &ConfigText<'_>) -> Result<(), GenesisError> {
    for (member, value) in config.members()? {
        if value.get() != "null" && is_unknown_rule(&member) {
            let (line, column) = config.place(value);
            return Err(NativeConfigError::UnknownRule { member, line, column }.into());
        }
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigFile {
    petersburg_block: Option<Number64>,
    istanbul_block: Option<Number64>,
    berlin_block: Option<Number64>,
    london_block: Option<Number64>,
    merge_block: Option<Number64>,
    shanghai_block: Option<Number64>,
    eip1559_block: Option<Number64>,
    cancun_block: Option<Number64>,
    #[serde(rename = "XDPoS")]
    engine: Option<Value>,
    tip2019_block: Option<Number64>,
    tip_signing_block: Option<Number64>,
    tip_randomize_block: Option<Number64>,
    tip_increase_masternodes_block: Option<Number64>,
    #[serde(rename = "tipNoHalvingMNRewardBlock")]
    tip_no_halving_reward_block: Option<Number64>,
    #[serde(rename = "tipXDCXBlock")]
    tip_xdcx_block: Option<Number64>,
    #[serde(rename = "tipXDCXLendingBlock")]
    tip_xdcx_lending_block: Option<Number64>,
    #[serde(rename = "tipXDCXCancellationFeeBlock")]
    tip_xdcx_cancellation_fee_block: Option<Number64>,
    #[serde(rename = "tipTRC21FeeBlock")]
    tip_trc21_fee_block: Option<Number64>,
    denylist_block: Option<Number64>,
    gas50x_block: Option<Number64>,
    #[serde(rename = "tipXDCXMinerDisableBlock")]
    tip_xdcx_miner_disable_block: Option<Number64>,
    #[serde(rename = "tipXDCXReceiverDisableBlock")]
    tip_xdcx_receiver_disable_block: Option<Number64>,
    prague_block: Option<Number64>,
    osaka_block: Option<Number64>,
    dynamic_gas_limit_block: Option<Number64>,
    tip_upgrade_reward_block: Option<Number64>,
    tip_upgrade_penalty_block: Option<Number64>,
    tip_epoch_halving_block: Option<Number64>,
    #[serde(rename = "trc21IssuerSMC")]
    trc21_issuer: Option<LenientAddress>,
    #[serde(rename = "xdcxListingSMC")]
    xdcx_listing: Option<LenientAddress>,
    #[serde(rename = "relayerRegistrationSMC")]
    relayer_registration: Option<LenientAddress>,
    #[serde(rename = "lendingRegistrationSMC")]
    lending_registration: Option<LenientAddress>,
}

impl ConfigFile {
    pub(crate) const fn is_native(&self) -> bool {
        self.engine.is_some()
    }
}

impl FamilyConfig for ConfigFile {
    fn family(&self, network_id: u64) -> Result<Box<dyn SpecFamily>, GenesisError> {
        if self.osaka_block.is_some() {
            return Err(GenesisError::UnsupportedFork { name: "osakaBlock" });
        }
        let file = FileRules { heights: file_heights(self), contracts: file_contracts(self) };
        let engine = self.engine.as_ref().unwrap_or(&Value::Null);
        Ok(Box::new(NativeSettings::new(network_id, engine, &file)?))
    }
}

/// The heights of native rules in the file (`docs/spec/chain.md` 5.1, `docs/spec/upgrades.md` 2.3).
fn file_heights(config: &ConfigFile) -> FileHeights {
    let named = |name: &'static str, number: Option<Number64>| (name, number.map(|number| number.0));
    FileHeights {
        earlier: vec![
            named("petersburg", config.petersburg_block),
            named("istanbul", config.istanbul_block),
            named("berlin", config.berlin_block),
            named("london", config.london_block),
            named("merge", config.merge_block),
            named("shanghai", config.shanghai_block),
            named("eip1559", config.eip1559_block),
            named("cancun", config.cancun_block),
        ],
        replaced: vec![
            named("tip2019", config.tip2019_block),
            named("tipSigning", config.tip_signing_block),
            named("tipRandomize", config.tip_randomize_block),
            named("tipIncreaseMasternodes", config.tip_increase_masternodes_block),
            named("tipNoHalvingReward", config.tip_no_halving_reward_block),
            named("tipXDCX", config.tip_xdcx_block),
            named("tipXDCXLending", config.tip_xdcx_lending_block),
            named("tipXDCXCancellationFee", config.tip_xdcx_cancellation_fee_block),
            named("tipTRC21Fee", config.tip_trc21_fee_block),
            named("denylist", config.denylist_block),
            named("gas50x", config.gas50x_block),
            named("tipXDCXMinerDisable", config.tip_xdcx_miner_disable_block),
            named("tipXDCXReceiverDisable", config.tip_xdcx_receiver_disable_block),
            named("prague", config.prague_block),
            named("osaka", config.osaka_block),
            named("dynamicGasLimit", config.dynamic_gas_limit_block),
            named("tipUpgradeReward", config.tip_upgrade_reward_block),
            named("tipUpgradePenalty", config.tip_upgrade_penalty_block),
            named("tipEpochHalving", config.tip_epoch_halving_block),
        ],
    }
}

fn file_contracts(config: &ConfigFile) -> FileContracts {
    let address = |address: Option<LenientAddress>| address.map(|address| address.0);
    FileContracts {
        trc21_issuer: address(config.trc21_issuer),
        xdcx_listing: address(config.xdcx_listing),
        relayer_registration: address(config.relayer_registration),
        lending_registration: address(config.lending_registration),
    }
}

/// Known members of a native chain's `config` whose names look like those of rules. They are read, or have no effect by
/// design.
const KNOWN_MEMBERS: [&str; 42] = [
    "homesteadBlock",
    "daoForkBlock",
    "eip150Block",
    "eip155Block",
    "eip158Block",
    "byzantiumBlock",
    "constantinopleBlock",
    "petersburgBlock",
    "istanbulBlock",
    "muirGlacierBlock",
    "arrowGlacierBlock",
    "grayGlacierBlock",
    "mergeNetsplitBlock",
    "berlinBlock",
    "londonBlock",
    "mergeBlock",
    "shanghaiBlock",
    "eip1559Block",
    "cancunBlock",
    "tip2019Block",
    "tipSigningBlock",
    "tipRandomizeBlock",
    "tipIncreaseMasternodesBlock",
    "tipNoHalvingMNRewardBlock",
    "tipXDCXBlock",
    "tipXDCXLendingBlock",
    "tipXDCXCancellationFeeBlock",
    "tipTRC21FeeBlock",
    "denylistBlock",
    "gas50xBlock",
    "tipXDCXMinerDisableBlock",
    "tipXDCXReceiverDisableBlock",
    "pragueBlock",
    "osakaBlock",
    "dynamicGasLimitBlock",
    "tipUpgradeRewardBlock",
    "tipUpgradePenaltyBlock",
    "tipEpochHalvingBlock",
    "trc21IssuerSMC",
    "xdcxListingSMC",
    "relayerRegistrationSMC",
    "lendingRegistrationSMC",
];

/// Returns whether a member of a native chain's `config` is, judging by its name, a rule that this release does not
/// know: a height, a time, a system contract. If it were ignored, the chain would have other rules than its file says.
/// The reference ignores the case of names, so another spelling of a known name counts as unknown, too.
fn is_unknown_rule(member: &str) -> bool {
    let lower = member.to_ascii_lowercase();
    let looks_like_a_rule = ["block", "time", "smc"].iter().any(|end| lower.ends_with(end)) || lower.starts_with("tip");
    looks_like_a_rule && !KNOWN_MEMBERS.contains(&member)
}
