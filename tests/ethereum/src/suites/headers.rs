//! Headers in the block tests' form.

use alloy_primitives::{Address, B64, B256, Bloom};
use serde::Deserialize;
use tenon_api::Header;

use crate::{
    Difference,
    lenient::{HexBytes, Number},
    outcome::require_equal,
};

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HeaderFile {
    pub(super) hash: B256,
    parent_hash: B256,
    uncle_hash: B256,
    coinbase: Address,
    state_root: B256,
    transactions_trie: B256,
    receipt_trie: B256,
    bloom: HexBytes,
    difficulty: Number,
    number: Number,
    gas_limit: Number,
    gas_used: Number,
    timestamp: Number,
    extra_data: HexBytes,
    mix_hash: B256,
    nonce: HexBytes,
    base_fee_per_gas: Option<Number>,
    withdrawals_root: Option<B256>,
    blob_gas_used: Option<Number>,
    excess_blob_gas: Option<Number>,
    parent_beacon_block_root: Option<B256>,
    requests_hash: Option<B256>,
}

impl HeaderFile {
    /// The header with these members.
    pub(super) fn header(&self) -> Result<Header, Difference> {
        Ok(Header {
            parent_hash: self.parent_hash,
            ommers_hash: self.uncle_hash,
            beneficiary: self.coinbase,
            state_root: self.state_root,
            transactions_root: self.transactions_trie,
            receipts_root: self.receipt_trie,
            logs_bloom: fixed("bloom", &self.bloom).map(Bloom::new)?,
            difficulty: self.difficulty.saturated(),
            number: self.number.to_u64(),
            gas_limit: self.gas_limit.to_u64(),
            gas_used: self.gas_used.to_u64(),
            timestamp: self.timestamp.to_u64(),
            extra_data: self.extra_data.0.clone(),
            mix_hash: self.mix_hash,
            nonce: fixed("nonce", &self.nonce).map(B64::new)?,
            native_seal: None,
            base_fee_per_gas: self.base_fee_per_gas.map(Number::to_u64),
            withdrawals_root: self.withdrawals_root,
            blob_gas_used: self.blob_gas_used.map(Number::to_u64),
            excess_blob_gas: self.excess_blob_gas.map(Number::to_u64),
            parent_beacon_block_root: self.parent_beacon_block_root,
            requests_hash: self.requests_hash,
        })
    }

    /// Finds the first member in which a decoded header differs.
    pub(super) fn compare(&self, found: &Header) -> Result<(), Difference> {
        let wanted = self.header()?;
        for ((name, found), (_, wanted)) in members(found).into_iter().zip(members(&wanted)) {
            require_equal(format!("header {name}"), found, wanted)?;
        }
        Ok(())
    }
}

fn members(header: &Header) -> [(&'static str, String); 21] {
    let optional = |number: Option<u64>| number.map_or_else(|| "none".to_owned(), |number| number.to_string());
    let hash = |hash: Option<B256>| hash.map_or_else(|| "none".to_owned(), |hash| hash.to_string());
    [
        ("parentHash", header.parent_hash.to_string()),
        ("uncleHash", header.ommers_hash.to_string()),
        ("coinbase", header.beneficiary.to_string()),
        ("stateRoot", header.state_root.to_string()),
        ("transactionsTrie", header.transactions_root.to_string()),
        ("receiptTrie", header.receipts_root.to_string()),
        ("bloom", header.logs_bloom.to_string()),
        ("difficulty", header.difficulty.to_string()),
        ("number", header.number.to_string()),
        ("gasLimit", header.gas_limit.to_string()),
        ("gasUsed", header.gas_used.to_string()),
        ("timestamp", header.timestamp.to_string()),
        ("extraData", header.extra_data.to_string()),
        ("mixHash", header.mix_hash.to_string()),
        ("nonce", header.nonce.to_string()),
        ("baseFeePerGas", optional(header.base_fee_per_gas)),
        ("withdrawalsRoot", hash(header.withdrawals_root)),
        ("blobGasUsed", optional(header.blob_gas_used)),
        ("excessBlobGas", optional(header.excess_blob_gas)),
        ("parentBeaconBlockRoot", hash(header.parent_beacon_block_root)),
        ("requestsHash", hash(header.requests_hash)),
    ]
}

fn fixed<const N: usize>(name: &str, bytes: &HexBytes) -> Result<[u8; N], Difference> {
    let wrong = |_| Difference::new(name, format_args!("{} bytes", bytes.0.len()), format_args!("{N} bytes"));
    <[u8; N]>::try_from(&bytes.0[..]).map_err(wrong)
}
