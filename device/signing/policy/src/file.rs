//! The policy file: TOML that holds only data. Unknown keys are errors.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use alloy_primitives::{Address, U256};
use serde::{Deserialize, Deserializer, de};

use crate::{Kind, parse_amount};

/// An address. One in mixed case must have the checksum of EIP-55: a digit that was mistyped would otherwise change who
/// is paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrittenAddress(pub(crate) Address);

impl<'de> Deserialize<'de> for WrittenAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = |reason: &str| de::Error::custom(format!("`{text}` {reason}"));
        let digits = text.strip_prefix("0x").unwrap_or(&text);
        let address: Address =
            text.parse().map_err(|_| wrong("is not an address, which has 40 hexadecimal digits after 0x"))?;
        let has = |is_case: fn(&u8) -> bool| digits.as_bytes().iter().any(is_case);
        let is_mixed = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
        if is_mixed && address.to_checksum(None).strip_prefix("0x") != Some(digits) {
            return Err(wrong("has a wrong checksum: a digit or the case of a letter is wrong"));
        }
        Ok(Self(address))
    }
}

/// A policy file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct PolicyFile {
    /// Version of the file format: 1.
    pub(crate) version: u32,
    /// Contract interfaces, by the name that rules use.
    #[serde(default)]
    pub(crate) interfaces: BTreeMap<String, InterfaceEntry>,
    /// The rules, in order of evaluation.
    #[serde(default)]
    pub(crate) rules: Vec<RuleEntry>,
}

/// An interface.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct InterfaceEntry {
    /// JSON file of the interface, relative to the policy's folder.
    pub(crate) file: PathBuf,
    /// The contracts that implement it; any contract if missing.
    pub(crate) contracts: Option<Vec<WrittenAddress>>,
}

/// What a rule does with a request that meets its conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OutcomeEntry {
    Allow,
    Ask,
    Deny,
}

/// A rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RuleEntry {
    pub(crate) name: String,
    pub(crate) outcome: OutcomeEntry,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) clients: Option<Choice<String>>,
    pub(crate) accounts: Option<Choice<WrittenAddress>>,
    pub(crate) chains: Option<Choice<u64>>,
    /// For transactions: addresses, `any`, or `creation`.
    pub(crate) recipients: Option<Choice<WrittenAddress>>,
    /// For transactions: `none` (no data), `any`, or functions such as `erc20.transfer` and selectors such as
    /// `0xa9059cbb`.
    pub(crate) functions: Option<Choice<String>>,
    #[serde(default)]
    pub(crate) arguments: Vec<ArgumentEntry>,
    pub(crate) max_value: Option<Amount>,
    pub(crate) max_fee: Option<Amount>,
    pub(crate) window: Option<Window>,
    pub(crate) max_value_in_window: Option<Amount>,
    pub(crate) max_fee_in_window: Option<Amount>,
    pub(crate) max_requests_in_window: Option<u64>,
    /// Whether another transaction may be signed for a nonce that is already used.
    #[serde(default)]
    pub(crate) replace: bool,
    /// Whether transactions may delegate the sender's code (type 4).
    #[serde(default)]
    pub(crate) delegations: bool,
    /// For typed data.
    pub(crate) domains: Option<Choice<DomainEntry>>,
    /// For typed data.
    pub(crate) primary_types: Option<Choice<String>>,
    /// For messages: `any`, or the beginnings of allowed texts.
    pub(crate) prefixes: Option<Choice<String>>,
}

/// A bound on an argument of a call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ArgumentEntry {
    /// The function, such as `erc20.transfer`.
    pub(crate) function: String,
    /// The argument's name.
    pub(crate) name: String,
    /// Allowed values: addresses, numbers, `true` and `false`, texts, bytes in hexadecimal.
    pub(crate) one_of: Option<Vec<String>>,
    /// Highest value of a number.
    pub(crate) max: Option<Amount>,
}

/// A domain of typed data. The given members must be equal; missing ones are not compared.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct DomainEntry {
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) contract: Option<WrittenAddress>,
}

/// One word (`any`, `none`, `creation`), or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice<T> {
    Word(String),
    List(Vec<T>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Choice<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = Choice<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list, or the word \"any\"")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Self::Value, E> {
                Ok(Choice::Word(word.to_owned()))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(Choice::List(list))
            }
        }
        deserializer.deserialize_any(Visitor(std::marker::PhantomData))
    }
}

/// An amount: a string with its unit, or an integer number of wei.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amount(pub(crate) U256);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Amount;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an amount such as \"1.5 ether\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
                parse_amount(text).map(Amount).map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Amount, E> {
                u64::try_from(number).map(|number| Amount(U256::from(number))).map_err(|_| E::custom("it is negative"))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A duration in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window(pub(crate) u64);

/// Longest window in seconds: a leap year.
const MAX_WINDOW: u64 = 366 * 86_400;

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_window(&text).map(Self).ok_or_else(|| {
            de::Error::custom(format!(
                "`{text}` is not a duration: write \"90s\", \"15m\", \"24h\" or \"7d\", at most 366 days"
            ))
        })
    }
}

fn parse_window(text: &str) -> Option<u64> {
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return None,
    };
    let number = &text[..text.len() - 1];
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let seconds = number.parse::<u64>().ok()?.checked_mul(unit)?;
    (1..=MAX_WINDOW).contains(&seconds).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_mixed_case_must_have_its_checksum() {
        let read = |text: &str| WrittenAddress::deserialize(toml::Value::from(text)).map_err(|error| error.to_string());
        let right = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
        let address = right.parse().unwrap();
        for text in [right, &right.to_lowercase(), &format!("0x{}", right[2..].to_uppercase())] {
            assert_eq!(read(text), Ok(WrittenAddress(address)), "{text}");
        }
        assert!(read(&right.replace("79C8", "79c8")).unwrap_err().contains("wrong checksum"));
        assert!(read(&right[..41]).unwrap_err().contains("40 hexadecimal digits"));
    }

    #[test]
    fn windows_are_read_in_their_unit() {
        let cases = [("90s", Some(90)), ("15m", Some(900)), ("24h", Some(86_400)), ("7d", Some(604_800))];
        for (text, seconds) in cases {
            assert_eq!(parse_window(text), seconds, "{text}");
        }
        for text in ["", "0s", "5", "h", "-1h", "1.5h", "367d", "99999999999999999999d", "1 h", "1ℎ", "+1h"] {
            assert_eq!(parse_window(text), None, "{text}");
        }
    }
}
