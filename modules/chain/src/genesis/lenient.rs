//! Lenient parsing of the numbers, bytes and addresses in existing genesis files.

use alloy_primitives::{Address, B64, B256, Bytes, U256, hex};
use serde::de::{Deserialize, Deserializer, Error};
use serde_json::value::RawValue;

/// An unsigned integer: a JSON number of any length, or a string in decimal or `0x` hexadecimal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number(pub(super) U256);

impl Number {
    pub(super) fn to_u64<E: Error>(self) -> Result<u64, E> {
        u64::try_from(self.0).map_err(|_| E::custom(format_args!("number {} does not fit 64 bits", self.0)))
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Parsed from the raw text, because a terminal total difficulty has more digits than a JSON number keeps.
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text = raw.get().trim_matches('"');
        parse_number(text).map(Self).ok_or_else(|| D::Error::custom(format_args!("`{text}` is not a number")))
    }
}

fn parse_number(text: &str) -> Option<U256> {
    match strip_hex_prefix(text) {
        Some("") => Some(U256::ZERO),
        Some(digits) => U256::from_str_radix(digits, 16).ok(),
        None if text.is_empty() => Some(U256::ZERO),
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => U256::from_str_radix(text, 10).ok(),
        None => None,
    }
}

fn strip_hex_prefix(text: &str) -> Option<&str> {
    text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))
}

/// An unsigned integer of 64 bits: a JSON number, or a string in decimal or `0x` hexadecimal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Number64(
    /// Its value.
    pub u64,
);

impl<'de> Deserialize<'de> for Number64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Number::deserialize(deserializer)?.to_u64().map(Self)
    }
}

/// Hexadecimal bytes with an even or odd number of digits, with or without `0x`.
#[derive(Clone, Debug, Default)]
pub(super) struct HexBytes(pub(super) Bytes);

impl<'de> Deserialize<'de> for HexBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_bytes(&text).map(|bytes| Self(bytes.into())).map_err(D::Error::custom)
    }
}

fn parse_bytes(text: &str) -> Result<Vec<u8>, String> {
    let digits = strip_hex_prefix(text).unwrap_or(text);
    let even = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.to_owned() };
    hex::decode(&even).map_err(|_| format!("`{text}` is not hexadecimal"))
}

/// A value of 32 bytes; shorter ones are left-padded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Word(pub(super) B256);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = parse_bytes(&text).map_err(D::Error::custom)?;
        if bytes.len() > 32 {
            return Err(D::Error::custom(format_args!("`{text}` is longer than 32 bytes")));
        }
        Ok(Self(B256::left_padding_from(&bytes)))
    }
}

/// The header's nonce: a number, or eight bytes in hexadecimal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Nonce(pub(super) B64);

impl<'de> Deserialize<'de> for Nonce {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(B64::from(Number64::deserialize(deserializer)?.0.to_be_bytes())))
    }
}

/// An address: forty digits, optionally after `0x` or `xdc`, in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LenientAddress(
    /// The address.
    pub Address,
);

impl<'de> Deserialize<'de> for LenientAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_address(&text).map(Self).ok_or_else(|| D::Error::custom(NotAnAddress(&text)))
    }
}

fn parse_address(text: &str) -> Option<Address> {
    let prefixed = text.get(..3).is_some_and(|prefix| prefix.eq_ignore_ascii_case("xdc"));
    let digits = if prefixed { &text[3..] } else { strip_hex_prefix(text).unwrap_or(text) };
    let mut bytes = [0; 20];
    hex::decode_to_slice(digits, &mut bytes).ok()?;
    Some(Address::new(bytes))
}

#[derive(derive_more::Display)]
#[display("`{_0}` is not an address: forty hexadecimal digits after 0x, xdc or nothing")]
struct NotAnAddress<'a>(&'a str);
