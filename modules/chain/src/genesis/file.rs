//! The members of a genesis file in go-ethereum's form (`docs/spec/chain.md` 7, `docs/spec/conformance.md` 3).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::lenient::{HexBytes, LenientAddress, Nonce, Number, Number64, Word};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GenesisFile<'a> {
    #[serde(borrow)]
    pub(super) config: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) nonce: Option<Nonce>,
    pub(super) timestamp: Option<Number64>,
    pub(super) extra_data: Option<HexBytes>,
    pub(super) gas_limit: Option<Number64>,
    pub(super) difficulty: Option<Number>,
    pub(super) mix_hash: Option<Word>,
    pub(super) coinbase: Option<LenientAddress>,
    pub(super) alloc: Option<BTreeMap<LenientAddress, AccountFile>>,
    pub(super) number: Option<Number64>,
    pub(super) gas_used: Option<Number64>,
    pub(super) parent_hash: Option<Word>,
    pub(super) base_fee_per_gas: Option<Number64>,
    pub(super) excess_blob_gas: Option<Number64>,
    pub(super) blob_gas_used: Option<Number64>,
    pub(super) parent_beacon_block_root: Option<Word>,
}

#[derive(Deserialize)]
pub(super) struct AccountFile {
    pub(super) balance: Option<Number>,
    pub(super) nonce: Option<Number64>,
    pub(super) code: Option<HexBytes>,
    pub(super) storage: Option<BTreeMap<Word, Word>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConfigFile {
    pub(super) chain_id: Option<Number64>,
    pub(super) homestead_block: Option<Number64>,
    pub(super) dao_fork_block: Option<Number64>,
    pub(super) dao_fork_support: Option<bool>,
    pub(super) eip150_block: Option<Number64>,
    pub(super) eip155_block: Option<Number64>,
    pub(super) eip158_block: Option<Number64>,
    pub(super) byzantium_block: Option<Number64>,
    pub(super) constantinople_block: Option<Number64>,
    pub(super) petersburg_block: Option<Number64>,
    pub(super) istanbul_block: Option<Number64>,
    pub(super) muir_glacier_block: Option<Number64>,
    pub(super) berlin_block: Option<Number64>,
    pub(super) london_block: Option<Number64>,
    pub(super) arrow_glacier_block: Option<Number64>,
    pub(super) gray_glacier_block: Option<Number64>,
    pub(super) merge_netsplit_block: Option<Number64>,
    pub(super) shanghai_time: Option<Number64>,
    pub(super) cancun_time: Option<Number64>,
    pub(super) prague_time: Option<Number64>,
    pub(super) osaka_time: Option<Number64>,
    pub(super) bpo1_time: Option<Number64>,
    pub(super) bpo2_time: Option<Number64>,
    pub(super) bpo3_time: Option<Number64>,
    pub(super) bpo4_time: Option<Number64>,
    pub(super) bpo5_time: Option<Number64>,
    pub(super) amsterdam_time: Option<Number64>,
    pub(super) verkle_time: Option<Number64>,
    pub(super) terminal_total_difficulty: Option<Number>,
    pub(super) deposit_contract_address: Option<LenientAddress>,
    pub(super) blob_schedule: Option<BTreeMap<String, Option<BlobFile>>>,
    pub(super) merge_block: Option<Number64>,
    pub(super) shanghai_block: Option<Number64>,
    pub(super) eip1559_block: Option<Number64>,
    pub(super) cancun_block: Option<Number64>,
    #[serde(rename = "XDPoS")]
    pub(super) native_engine: Option<Value>,
    pub(super) tip2019_block: Option<Number64>,
    pub(super) tip_signing_block: Option<Number64>,
    pub(super) tip_randomize_block: Option<Number64>,
    pub(super) tip_increase_masternodes_block: Option<Number64>,
    #[serde(rename = "tipNoHalvingMNRewardBlock")]
    pub(super) tip_no_halving_reward_block: Option<Number64>,
    #[serde(rename = "tipXDCXBlock")]
    pub(super) tip_xdcx_block: Option<Number64>,
    #[serde(rename = "tipXDCXLendingBlock")]
    pub(super) tip_xdcx_lending_block: Option<Number64>,
    #[serde(rename = "tipXDCXCancellationFeeBlock")]
    pub(super) tip_xdcx_cancellation_fee_block: Option<Number64>,
    #[serde(rename = "tipTRC21FeeBlock")]
    pub(super) tip_trc21_fee_block: Option<Number64>,
    pub(super) denylist_block: Option<Number64>,
    pub(super) gas50x_block: Option<Number64>,
    #[serde(rename = "tipXDCXMinerDisableBlock")]
    pub(super) tip_xdcx_miner_disable_block: Option<Number64>,
    #[serde(rename = "tipXDCXReceiverDisableBlock")]
    pub(super) tip_xdcx_receiver_disable_block: Option<Number64>,
    pub(super) prague_block: Option<Number64>,
    pub(super) osaka_block: Option<Number64>,
    pub(super) dynamic_gas_limit_block: Option<Number64>,
    pub(super) tip_upgrade_reward_block: Option<Number64>,
    pub(super) tip_upgrade_penalty_block: Option<Number64>,
    pub(super) tip_epoch_halving_block: Option<Number64>,
    #[serde(rename = "trc21IssuerSMC")]
    pub(super) trc21_issuer: Option<LenientAddress>,
    #[serde(rename = "xdcxListingSMC")]
    pub(super) xdcx_listing: Option<LenientAddress>,
    #[serde(rename = "relayerRegistrationSMC")]
    pub(super) relayer_registration: Option<LenientAddress>,
    #[serde(rename = "lendingRegistrationSMC")]
    pub(super) lending_registration: Option<LenientAddress>,
}

/// Known members of a native chain's `config` whose names look like those of rules. They are read, or have no effect by
/// design.
const KNOWN_NATIVE_MEMBERS: [&str; 42] = [
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
pub(super) fn is_unknown_native_rule(member: &str) -> bool {
    let lower = member.to_ascii_lowercase();
    let looks_like_a_rule = ["block", "time", "smc"].iter().any(|end| lower.ends_with(end)) || lower.starts_with("tip");
    looks_like_a_rule && !KNOWN_NATIVE_MEMBERS.contains(&member)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlobFile {
    pub(super) target: Number64,
    pub(super) max: Number64,
    pub(super) base_fee_update_fraction: Number64,
}
