//! Reads the recorded data that the tests share (`tests/data/chain/README.md`).

#![allow(dead_code, reason = "each test program uses a part")]

use serde_json::Value;

pub(crate) fn unpacked(name: &str) -> Vec<u8> {
    tenon_test_data::unpacked(format!("chain/{name}"))
}

pub(crate) fn json(name: &str) -> Value {
    tenon_test_data::json(format!("chain/{name}"))
}

pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    alloy_primitives::hex::decode(value.as_str().unwrap()).unwrap()
}

/// A number as in the recordings: hexadecimal text, leading zeros allowed.
pub(crate) fn number(value: &Value) -> alloy_primitives::U256 {
    let text = value.as_str().unwrap();
    let digits = text.strip_prefix("0x").unwrap();
    if digits.is_empty() {
        return alloy_primitives::U256::ZERO;
    }
    alloy_primitives::U256::from_str_radix(digits, 16).unwrap()
}
