//! The members of a genesis file in go-ethereum's form (`docs/spec/chain.md` 7, `docs/spec/conformance.md` 3).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::config::GenesisMembers;
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

impl GenesisFile<'_> {
    /// The members that a chain family checks, or copies into the genesis header.
    pub(super) fn members(&self) -> GenesisMembers {
        GenesisMembers {
            has_gas_limit: self.gas_limit.is_some(),
            has_difficulty: self.difficulty.is_some(),
            has_balances: self.alloc.iter().flatten().all(|(_, account)| account.balance.is_some()),
            base_fee_per_gas: self.base_fee_per_gas.map(|number| number.0),
            blob_gas_used: self.blob_gas_used.map(|number| number.0),
            excess_blob_gas: self.excess_blob_gas.map(|number| number.0),
            parent_beacon_block_root: self.parent_beacon_block_root.map(|word| word.0),
        }
    }
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
    /// Present only in files of another family ([`super::GenesisFamily`]).
    #[serde(rename = "XDPoS")]
    pub(super) other_engine: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlobFile {
    pub(super) target: Number64,
    pub(super) max: Number64,
    pub(super) base_fee_update_fraction: Number64,
}
