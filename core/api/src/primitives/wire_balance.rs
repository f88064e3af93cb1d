//! The encoding of balances in messages: up to 256 bits like any `U256`, higher ones in 40 bytes.

use std::fmt::{self, Formatter};

use alloy_primitives::U256;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::account::{WholeBalance, join_balance, split_balance};

/// A balance in a message.
pub(super) struct WireBalance {
    pub(super) low: U256,
    pub(super) high: u64,
}

impl Serialize for WireBalance {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let whole = || join_balance(self.low, self.high);
        match self.high {
            0 => self.low.serialize(serializer),
            _ if serializer.is_human_readable() => serializer.serialize_str(&format!("{:#x}", whole())),
            _ => serializer.serialize_bytes(&whole().to_be_bytes::<40>()),
        }
    }
}

impl<'de> Deserialize<'de> for WireBalance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(Number)
        } else {
            deserializer.deserialize_bytes(Number)
        }
    }
}

struct Number;

impl de::Visitor<'_> for Number {
    type Value = WireBalance;

    fn expecting(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("a balance of 32 or 40 bytes")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<WireBalance, E> {
        // Arrays of a known length, because reading a number from a slice takes ten times as many instructions.
        if let Ok(low) = <[u8; 32]>::try_from(bytes) {
            return Ok(WireBalance { low: U256::from_be_bytes(low), high: 0 });
        }
        // One number has one encoding: a balance of 256 bits or less does not have 40 bytes.
        match <[u8; 40]>::try_from(bytes).map(|bytes| split_balance(WholeBalance::from_be_bytes(bytes))) {
            Ok((low, high @ 1..)) => Ok(WireBalance { low, high }),
            _ => Err(E::invalid_length(bytes.len(), &self)),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<WireBalance, E> {
        let (low, high) = split_balance(text.parse().map_err(E::custom)?);
        Ok(WireBalance { low, high })
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<WireBalance, E> {
        Ok(WireBalance { low: U256::from(number), high: 0 })
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::U256;
    use bincode::config::standard;

    use crate::Account;

    fn encoded(account: Account) -> Vec<u8> {
        bincode::serde::encode_to_vec(account, standard()).unwrap()
    }

    fn decoded(frame: &[u8]) -> Option<Account> {
        bincode::serde::decode_from_slice(frame, standard()).ok().map(|(account, _)| account)
    }

    #[test]
    fn an_account_is_the_same_after_a_message() {
        for balance_high in [0, 1, u64::MAX] {
            let account = Account { nonce: 3, balance: U256::from(7), balance_high, ..Account::default() };
            let frame = encoded(account);
            assert_eq!(decoded(&frame), Some(account));
        }
    }

    #[test]
    fn a_number_has_one_encoding() {
        let account = Account { balance_high: 1, ..Account::default() };
        let mut frame = encoded(account);
        // Nonce, length, and the high part.
        assert_eq!((frame[0], frame[1], frame[9]), (0, 40, 1));
        frame[9] = 0;
        assert_eq!(decoded(&frame), None);
    }
}
