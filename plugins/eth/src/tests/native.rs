//! The native profile against recordings of the reference (`tests/data/native`).

use std::sync::Arc;

use serde_json::Value;
use tenon_sdk::prelude::*;

use super::{call, host, plugin, recorded};
use crate::table::table;

/// The block that a recorded object shows.
fn native_block(object: &Value) -> StoredBlock {
    let mut stored = recorded::block(object);
    stored.total_difficulty = recorded::read(object, "totalDifficulty");
    let block = Arc::make_mut(&mut stored.block);
    let seal = NativeSeal {
        validators: recorded::read(object, "validators"),
        validator: recorded::read(object, "validator"),
        penalties: recorded::read(object, "penalties"),
    };
    let header = Header { native_seal: Some(seal), ..block.header.header().clone() };
    block.block.header = SealedHeader::new_unchecked(header, block.header.hash());
    stored
}

#[test]
fn recorded_blocks_come_out_byte_for_byte() {
    let mut blocks = 0;

    for line in include_str!("../../tests/data/native/blocks.jsonl").lines() {
        let exchange: Value = serde_json::from_str(line).expect("JSON");
        let block = native_block(&exchange["r"]);
        let node = host(Profile::Native).answer(move |_: GetBlock| Ok(Some(block.clone())));
        let params = format!(r#"["0x1",{}]"#, exchange["p"][1] == Value::Bool(true));

        let text = node.call(&table(), &plugin(&node), "eth_getBlockByNumber", &params).expect("a block");

        let (_, result) = line.split_once("\"r\":").expect("a result");
        assert_eq!(text, result.trim_end_matches('\n').strip_suffix('}').expect("an object"));
        blocks += 1;
    }
    assert!(blocks > 5, "{blocks}");
}

#[test]
fn malformed_parameters_are_refused_in_the_words_of_the_reference() {
    let node = host(Profile::Native);

    for line in include_str!("../../tests/data/native/bad-params.jsonl").lines() {
        let exchange: Value = serde_json::from_str(line).expect("JSON");
        let params = exchange.get("params").filter(|params| !params.is_null()).map(Value::to_string);
        let method = exchange["method"].as_str().unwrap_or_default();

        let answer = call(&node, method, &params.unwrap_or_default());

        let expected = exchange["error"].as_str().unwrap_or_default();
        assert_eq!(answer, Err(Failure::invalid_params(expected)), "{line}");
    }
}
