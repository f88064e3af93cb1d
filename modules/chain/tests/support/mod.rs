//! Reads the recorded data that the tests share (`tests/data/chain/README.md`).

#![allow(dead_code, reason = "each test program uses a part")]

use std::io::Read;
use std::path::Path;

use serde_json::Value;

pub(crate) fn unpacked(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/chain").join(name);
    let packed = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    bytes
}

pub(crate) fn json(name: &str) -> Value {
    serde_json::from_slice(&unpacked(name)).unwrap()
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
