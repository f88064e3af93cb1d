//! Recorded data for the tests of the native engines, from `tests/data/native`.

use alloy_primitives::hex;
use serde_json::Value;
use tenon_api::SealedHeader;

/// A file of this folder.
pub(crate) fn json(name: &str) -> Value {
    tenon_test_data::json(format!("native/{name}"))
}

/// The published vectors of both engines (`docs/spec/consensus.md` 15).
pub(crate) fn consensus_vectors() -> Value {
    json("consensus-vectors.json")
}

/// A real header with its known properties.
pub(crate) fn recorded_header(name: &str) -> Value {
    json(&format!("headers/{name}"))
}

/// Answers of `eth_getRewardByHash`, as text, by chain and block number.
pub(crate) fn recorded_rewards() -> Value {
    json("rewards.json")
}

/// A header from its RLP in hexadecimal digits, with its hash.
pub(crate) fn header(rlp: &str) -> SealedHeader {
    let bytes = hex::decode(rlp).unwrap();
    tenon_chain::seal(tenon_chain::decode_header(&mut bytes.as_slice()).unwrap())
}
