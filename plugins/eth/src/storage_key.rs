//! Storage keys as callers write them: `docs/spec/rpc-eth.md` 8 (`eth_getStorageAt`), 18 (`eth_getProof`).

use tenon_sdk::prelude::*;

/// Maximum number of keys of one proof, as in go-ethereum.
pub(crate) const MAX_PROOF_KEYS: usize = 1024;

/// A storage key and how it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StorageKey {
    pub(crate) slot: B256,
    /// All 32 bytes were given; proofs echo such a key in full.
    pub(crate) is_full_length: bool,
}

impl StorageKey {
    /// Reads a key strictly: at most 32 bytes of hexadecimal digits, with or without `0x`.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        if digits.len() > 64 {
            let message = format!("storage key too long (want at most 32 bytes): {text:?}");
            return Err(Failure::invalid_params(message));
        }
        let mut slot = B256::ZERO;
        let count = digits.len().div_ceil(2);
        for (position, digit) in digits.bytes().rev().enumerate() {
            let Some(value) = hex_value(digit) else {
                return Err(Failure::invalid_params(format!("invalid hex in storage key: {text:?}")));
            };
            slot[31 - position / 2] |= value << (4 * (position % 2));
        }
        Ok(Self { slot, is_full_length: count == 32 })
    }

    /// Reads a key like the reference, which never refuses one: digits up to the first invalid one count; of more than
    /// 32 bytes, the last 32.
    pub(crate) fn parse_leniently(text: &str) -> B256 {
        let lower = text.get(..3).map(str::to_ascii_lowercase);
        let digits = match lower.as_deref() {
            Some("xdc") => &text[3..],
            _ => text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text),
        };
        // An odd number of digits is padded on the left before decoding, which then proceeds byte by byte.
        let padding = usize::from(digits.len() % 2 == 1);
        let values = std::iter::repeat_n(Some(0), padding).chain(digits.bytes().map(hex_value));
        let values: Vec<u8> = values.map_while(|value| value).collect();
        let bytes: Vec<u8> = values.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        B256::left_padding_from(&bytes[bytes.len().saturating_sub(32)..])
    }
}

const fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(number: u64) -> B256 {
        B256::from(U256::from(number))
    }

    #[test]
    fn strict_keys_may_be_short_or_odd_but_not_long_or_foreign() {
        let full = format!("0x{}", "0".repeat(63) + "7");
        type Read = Result<(B256, bool), &'static str>;
        let cases: [(&str, Read); 7] = [
            ("0x0", Ok((slot(0), false))),
            ("", Ok((slot(0), false))),
            ("0x123", Ok((slot(0x123), false))),
            ("0X0a", Ok((slot(10), false))),
            (&full, Ok((slot(7), true))),
            ("0xasdf", Err("invalid hex in storage key: \"0xasdf\"")),
            (
                "0x00000000000000000000000000000000000000000000000000000000000000000",
                Err(
                    "storage key too long (want at most 32 bytes): \"0x00000000000000000000000000000000000000000000000000000000000000000\"",
                ),
            ),
        ];

        for (text, expected) in cases {
            let read = StorageKey::parse(text).map(|key| (key.slot, key.is_full_length)).map_err(|error| error.message);
            assert_eq!(read, expected.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn lenient_keys_are_never_refused() {
        let long = format!("0xff{}5", "0".repeat(63));
        let cases = [
            ("", slot(0)),
            ("0x1", slot(1)),
            ("xDc0102", slot(0x102)),
            ("0x12zz34", slot(0x12)),
            ("0x1z", slot(0)),
            (long.as_str(), slot(5)),
        ];

        for (text, expected) in cases {
            assert_eq!(StorageKey::parse_leniently(text), expected, "{text}");
        }
    }
}
