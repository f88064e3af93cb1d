//! Numbers and bytes in the suites' forms: hexadecimal with leading zeros, `0x` for empty, sometimes decimal.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, U256, hex};
use serde::{Deserialize, Deserializer, de::Error};
use tenon_chain::GenesisAccount;

/// A number; `None` if it does not fit 256 bits, which some cases test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Number(pub(crate) Option<U256>);

impl Number {
    /// The number, or the maximum.
    pub(crate) fn saturated(self) -> U256 {
        self.0.unwrap_or(U256::MAX)
    }

    /// The number, or the maximum of 64 bits.
    pub(crate) fn to_u64(self) -> u64 {
        self.saturated().saturating_to()
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix("0x:bigint ").unwrap_or(text);
        let (digits, base) = match text.strip_prefix("0x") {
            Some(digits) => (digits.trim_start_matches('0'), 16),
            None => (text, 10),
        };
        if digits.is_empty() {
            return Some(Self(Some(U256::ZERO)));
        }
        if !digits.chars().all(|digit| digit.is_digit(base)) {
            return None;
        }
        Some(Self(U256::from_str_radix(digits, u64::from(base)).ok()))
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Integer(u64),
        }
        match Form::deserialize(deserializer)? {
            Form::Integer(number) => Ok(Self(Some(U256::from(number)))),
            Form::Text(text) => {
                Self::parse(&text).ok_or_else(|| D::Error::custom(format_args!("{text} is not a number")))
            }
        }
    }
}

/// Bytes, with or without `0x`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HexBytes(pub(crate) Bytes);

impl<'de> Deserialize<'de> for HexBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        hex::decode(&text).map(|bytes| Self(bytes.into())).map_err(D::Error::custom)
    }
}

/// A 256-bit word written as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Word(pub(crate) U256);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(deserializer)?;
        number.0.map(Self).ok_or_else(|| D::Error::custom("more than 256 bits"))
    }
}

/// An account of `pre` or `postState`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct AccountFile {
    pub(crate) balance: Number,
    pub(crate) nonce: Number,
    pub(crate) code: HexBytes,
    pub(crate) storage: BTreeMap<Word, Word>,
}

/// A state by address.
pub(crate) type StateFile = BTreeMap<Address, AccountFile>;

impl From<&AccountFile> for GenesisAccount {
    fn from(file: &AccountFile) -> Self {
        Self {
            balance: file.balance.saturated(),
            nonce: file.nonce.to_u64(),
            code: file.code.0.clone(),
            storage: file.storage.iter().map(|(slot, value)| (B256::from(slot.0), value.0)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_every_form_that_the_suites_use() {
        let cases = [
            ("0x", Some(Some(0))),
            ("", Some(Some(0))),
            ("0x00", Some(Some(0))),
            ("0x042c1d80", Some(Some(0x042c_1d80))),
            ("17", Some(Some(17))),
            ("0x:bigint 0x0010", Some(Some(16))),
            ("0xzz", None),
            ("-1", None),
        ];
        for (text, wanted) in cases {
            let wanted = wanted.map(|number| Number(number.map(|number: u64| U256::from(number))));
            assert_eq!(Number::parse(text), wanted, "{text}");
        }
        assert_eq!(Number::parse(&format!("0x1{}", "0".repeat(64))), Some(Number(None)));
    }
}
