//! Addresses and words passed by scripts as hexadecimal text, read as in go-ethereum.

use alloy_primitives::{Address, B256};

/// Reads hexadecimal text like go-ethereum's `FromHex`: with or without `0x`; a zero is prepended to an odd number of
/// digits; reading ends at the first character that is not a digit.
pub(crate) fn from_hex(text: &str) -> Vec<u8> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let padded = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.to_owned() };
    let pair = |pair: &[u8]| match pair {
        [high, low] => {
            let (high, low) = (char::from(*high).to_digit(16)?, char::from(*low).to_digit(16)?);
            u8::try_from(high << 4 | low).ok()
        }
        _ => None,
    };
    padded.as_bytes().chunks(2).map_while(pair).collect()
}

/// The last 20 bytes, padded with zeros on the left.
pub(crate) fn to_address(bytes: &[u8]) -> Address {
    Address::from_word(to_word(bytes.get(bytes.len().saturating_sub(20)..).unwrap_or_default()))
}

/// The last 32 bytes, padded with zeros on the left.
pub(crate) fn to_word(bytes: &[u8]) -> B256 {
    B256::left_padding_from(bytes.get(bytes.len().saturating_sub(32)..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_as_go_ethereum_reads_it() {
        let cases: [(&str, &[u8]); 7] = [
            ("0x0102", &[1, 2]),
            ("0X0102", &[1, 2]),
            ("0102", &[1, 2]),
            ("0x102", &[1, 2]),
            ("", &[]),
            ("0x01zz02", &[1]),
            ("zz", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(from_hex(text), expected, "{text}");
        }
    }

    #[test]
    fn short_values_get_zeros_in_front_and_long_ones_lose_their_beginning() {
        assert_eq!(to_address(&[1]).as_slice()[19], 1);
        assert_eq!(to_word(&[1, 2]).as_slice()[30..], [1, 2]);
        let long: Vec<u8> = (0..40).collect();
        assert_eq!(to_address(&long).as_slice(), &long[20..]);
        assert_eq!(to_word(&long).as_slice(), &long[8..]);
    }
}
