//! Members of a JSON object, looked up like in the reference: by exact name first, then ignoring case. ethers writes
//! `Crypto`, go-ethereum `crypto`.

use serde_json::{Map, Value};
use tenon_api::KeyFileProblem;

pub(super) type Members = Map<String, Value>;

const MISSING: &str = "is missing";
const NO_OBJECT: &str = "is not an object";
const NO_STRING: &str = "is not a string";
const NO_NUMBER: &str = "is not a number from 0 to 2^64-1";
const NO_HEX: &str = "is not hexadecimal";

pub(super) fn member<'a>(members: &'a Members, name: &str) -> Option<&'a Value> {
    let in_any_case = || members.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    members.get(name).or_else(in_any_case)
}

pub(super) fn required<'a>(members: &'a Members, name: &'static str) -> Result<&'a Value, KeyFileProblem> {
    member(members, name).ok_or(KeyFileProblem::Field { name, problem: MISSING })
}

pub(super) fn object<'a>(members: &'a Members, name: &'static str) -> Result<&'a Members, KeyFileProblem> {
    required(members, name)?.as_object().ok_or(KeyFileProblem::Field { name, problem: NO_OBJECT })
}

pub(super) fn string<'a>(members: &'a Members, name: &'static str) -> Result<&'a str, KeyFileProblem> {
    required(members, name)?.as_str().ok_or(KeyFileProblem::Field { name, problem: NO_STRING })
}

pub(super) fn number(members: &Members, name: &'static str) -> Result<u64, KeyFileProblem> {
    required(members, name)?.as_u64().ok_or(KeyFileProblem::Field { name, problem: NO_NUMBER })
}

/// Bytes of a hexadecimal text, with or without `0x`.
pub(super) fn bytes(members: &Members, name: &'static str) -> Result<Vec<u8>, KeyFileProblem> {
    alloy_primitives::hex::decode(string(members, name)?).map_err(|_| KeyFileProblem::Field { name, problem: NO_HEX })
}

/// The same, with an exact length.
pub(super) fn exact_bytes<const N: usize>(
    members: &Members,
    name: &'static str,
    problem: &'static str,
) -> Result<[u8; N], KeyFileProblem> {
    bytes(members, name)?.try_into().map_err(|_| KeyFileProblem::Field { name, problem })
}
