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
    let text = value.as_str().unwrap_or_else(|| panic!("{value} is not a text"));
    alloy_primitives::hex::decode(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A number as in the recordings: hexadecimal text, leading zeros allowed.
pub(crate) fn number(value: &Value) -> alloy_primitives::U256 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x"));
    let digits = digits.unwrap_or_else(|| panic!("{value} is not a number in hexadecimal"));
    if digits.is_empty() {
        return alloy_primitives::U256::ZERO;
    }
    alloy_primitives::U256::from_str_radix(digits, 16).unwrap()
}
