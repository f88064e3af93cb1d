//! Arguments of the `Consensus` namespace: headers and block ids in clients' form.
//!
//! The plugin's two parsers are compiled here a second time. Two plugins cannot be linked into one program, because
//! both export the symbol by which the host finds them, and `eth` is already linked.

use tenon_sdk::{Param, RawArgument, api::Header};

#[allow(dead_code, reason = "only a part of the file is used here")]
#[path = "../../../plugins/consensus/src/header.rs"]
mod header;
#[allow(dead_code, reason = "only a part of the file is used here")]
#[path = "../../../plugins/consensus/src/selector.rs"]
mod selector;

use header::HeaderArgument;
use selector::ChosenBlock;

/// JSON text: a header round-trips through another encoder, a block id parses or has an error.
pub(crate) fn arguments(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    // The envelope accepts nothing else.
    if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
        return;
    }
    let raw = RawArgument::new(text);
    match HeaderArgument::decode(raw) {
        Ok(HeaderArgument(header)) => {
            let again = written(&header);
            let read = HeaderArgument::decode(RawArgument::new(&again));
            assert_eq!(read.map(|again| *again.0), Ok(*header), "{again}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match ChosenBlock::decode(raw) {
        Ok(chosen) => {
            let (committed, height) = (chosen.or_committed(), chosen.height());
            assert!(committed.is_ok() || height.is_err(), "a block with a height can be named");
            assert!(committed.is_err() || height.is_err() || committed == height);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The header in clients' form, with lists as numbers.
pub(crate) fn written(header: &Header) -> String {
    let seal = header.native_seal.clone().unwrap_or_default();
    let mut members = serde_json::json!({
        "parentHash": header.parent_hash,
        "sha3Uncles": header.ommers_hash,
        "miner": header.beneficiary,
        "stateRoot": header.state_root,
        "transactionsRoot": header.transactions_root,
        "receiptsRoot": header.receipts_root,
        "logsBloom": header.logs_bloom,
        "difficulty": header.difficulty,
        "number": format!("{:#x}", header.number),
        "gasLimit": format!("{:#x}", header.gas_limit),
        "gasUsed": format!("{:#x}", header.gas_used),
        "timestamp": format!("{:#x}", header.timestamp),
        "extraData": header.extra_data,
        "mixHash": header.mix_hash,
        "nonce": header.nonce,
        "validators": seal.validators.to_vec(),
        "validator": seal.validator.to_vec(),
        "penalties": seal.penalties.to_vec(),
    });
    if let Some(fee) = header.base_fee_per_gas {
        members["baseFeePerGas"] = format!("{fee:#x}").into();
    }
    members.to_string()
}
