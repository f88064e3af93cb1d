//! Addresses, hashes, data and quantities (`docs/spec/rpc-eth.md` 4.1).

use alloy_primitives::{Address, B64, B256, Bytes, U256};
use serde::{Serialize, Serializer};

use super::{ArgumentError, Param, ParamDescription, RawArgument};

const NO_PREFIX: &str = "hex string without 0x prefix";
const ODD_LENGTH: &str = "hex string of odd length";
const BAD_DIGIT: &str = "invalid hex string";
const NO_DIGITS: &str = "hex string \"0x\"";
const LEADING_ZERO: &str = "hex number with leading zero digits";
const NON_STRING: &str = "non-string";
/// Error for a quantity above 64 bits.
const ABOVE_64_BITS: &str = "hex number > 64 bits";
const ABOVE_256_BITS: &str = "hex number > 256 bits";

/// A 64-bit quantity: `0x` and minimal hex digits, in parameters and results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity(pub u64);

/// A position in a list, written like a [`Quantity`]; errors use the reference's name for its type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Index(pub u64);

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = [b'0'; 18];
        text[1] = b'x';
        let mut at = text.len();
        let mut rest = self.0;
        loop {
            at -= 1;
            text[at] = b"0123456789abcdef"[(rest & 0xf) as usize];
            rest >>= 4;
            if rest == 0 {
                break;
            }
        }
        text[at - 2] = b'0';
        text[at - 1] = b'x';
        serializer.serialize_str(std::str::from_utf8(&text[at - 2..]).map_err(serde::ser::Error::custom)?)
    }
}

/// Digits of data: the prefix is `0x` or `xdc`, in upper or lower case. An empty string has none.
fn data_digits(text: &str) -> Result<&str, &'static str> {
    if text.is_empty() {
        return Ok(text);
    }
    let digits = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => &text[2..],
        [b'x' | b'X', b'd' | b'D', b'c' | b'C', ..] => &text[3..],
        _ => return Err(NO_PREFIX),
    };
    if digits.len() % 2 == 0 { Ok(digits) } else { Err(ODD_LENGTH) }
}

/// Decodes exactly `N` bytes of data.
pub(super) fn decode_fixed<const N: usize>(text: &str, type_name: &'static str) -> Result<[u8; N], ArgumentError> {
    let digits = data_digits(text).map_err(|reason| ArgumentError::mismatch(reason, type_name))?;
    if digits.len() != 2 * N {
        return Err(ArgumentError::text(format!(
            "hex string has length {}, want {} for {type_name}",
            digits.len(),
            2 * N
        )));
    }
    let mut bytes = [0; N];
    match alloy_primitives::hex::decode_to_slice(digits, &mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => Err(ArgumentError::mismatch(BAD_DIGIT, type_name)),
    }
}

fn fixed<const N: usize>(raw: RawArgument<'_>, type_name: &'static str) -> Result<[u8; N], ArgumentError> {
    let text = raw.quoted().ok_or(ArgumentError::mismatch(NON_STRING, type_name))?;
    decode_fixed(text, type_name)
}

/// Digits of a non-empty quantity.
pub(super) fn quantity_digits(text: &str) -> Result<&str, &'static str> {
    let digits = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => &text[2..],
        _ => return Err(NO_PREFIX),
    };
    match digits.as_bytes() {
        [] => Err(NO_DIGITS),
        [b'0', _, ..] => Err(LEADING_ZERO),
        _ => Ok(digits),
    }
}

/// Parses hex digits as a number of at most 64 bits.
pub(super) fn parse_64_bits(digits: &str) -> Result<u64, &'static str> {
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(BAD_DIGIT);
    }
    u64::from_str_radix(digits, 16).map_err(|_| ABOVE_64_BITS)
}

fn decode_64_bits(raw: RawArgument<'_>, type_name: &'static str) -> Result<u64, ArgumentError> {
    let text = raw.quoted().ok_or(ArgumentError::mismatch(NON_STRING, type_name))?;
    if text.is_empty() {
        return Ok(0);
    }
    quantity_digits(text)
        .and_then(|digits| if digits.len() > 16 { Err(ABOVE_64_BITS) } else { parse_64_bits(digits) })
        .map_err(|reason| ArgumentError::mismatch(reason, type_name))
}

impl Param for Quantity {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        decode_64_bits(raw, "hexutil.Uint64").map(Self)
    }

    fn description() -> ParamDescription {
        ParamDescription::required(r#"{"type":"string","pattern":"^0x(0|[1-9a-f][0-9a-f]{0,15})$"}"#)
    }
}

impl Param for Index {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        decode_64_bits(raw, "hexutil.Uint").map(Self)
    }

    fn description() -> ParamDescription {
        Quantity::description()
    }
}

impl Param for U256 {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        const TYPE: &str = "*hexutil.Big";
        let text = raw.quoted().ok_or(ArgumentError::mismatch(NON_STRING, TYPE))?;
        if text.is_empty() {
            return Ok(Self::ZERO);
        }
        let digits = quantity_digits(text).map_err(|reason| ArgumentError::mismatch(reason, TYPE))?;
        if digits.len() > 64 {
            return Err(ArgumentError::mismatch(ABOVE_256_BITS, TYPE));
        }
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(ArgumentError::mismatch(BAD_DIGIT, TYPE));
        }
        Self::from_str_radix(digits, 16).map_err(|_| ArgumentError::mismatch(BAD_DIGIT, TYPE))
    }

    fn description() -> ParamDescription {
        ParamDescription::required(r#"{"type":"string","pattern":"^0x(0|[1-9a-f][0-9a-f]{0,63})$"}"#)
    }
}

impl Param for Address {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        fixed(raw, "common.Address").map(Self::new)
    }

    fn description() -> ParamDescription {
        ParamDescription::required(r#"{"type":"string","pattern":"^0x[0-9a-fA-F]{40}$"}"#)
    }
}

impl Param for B256 {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        fixed(raw, "common.Hash").map(Self::new)
    }

    fn description() -> ParamDescription {
        ParamDescription::required(r#"{"type":"string","pattern":"^0x[0-9a-fA-F]{64}$"}"#)
    }
}

impl Param for B64 {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        if raw.is_null() {
            return Ok(Self::ZERO);
        }
        match fixed(raw, "BlockNonce") {
            Ok(bytes) => Ok(Self::new(bytes)),
            // Decoded from a string, whose errors Go does not wrap.
            Err(ArgumentError::Mismatch { .. }) if raw.kind() != "string" => {
                Err(ArgumentError::mismatch(raw.kind(), "*types.BlockNonce"))
            }
            Err(ArgumentError::Mismatch { reason, .. }) => Err(ArgumentError::text(reason)),
            Err(other) => Err(other),
        }
    }

    fn description() -> ParamDescription {
        ParamDescription::required(r#"{"type":"string","pattern":"^0x[0-9a-fA-F]{16}$"}"#)
    }
}

impl Param for Bytes {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        const TYPE: &str = "hexutil.Bytes";
        let text = raw.quoted().ok_or(ArgumentError::mismatch(NON_STRING, TYPE))?;
        let digits = data_digits(text).map_err(|reason| ArgumentError::mismatch(reason, TYPE))?;
        let mut bytes = vec![0; digits.len() / 2];
        match alloy_primitives::hex::decode_to_slice(digits, &mut bytes) {
            Ok(()) => Ok(bytes.into()),
            Err(_) => Err(ArgumentError::mismatch(BAD_DIGIT, TYPE)),
        }
    }

    fn description() -> ParamDescription {
        ParamDescription::required(r#"{"type":"string","pattern":"^0x([0-9a-fA-F]{2})*$"}"#)
    }
}
