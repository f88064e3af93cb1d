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
        let whole = if deserializer.is_human_readable() {
            deserializer.deserialize_any(Number)?
        } else {
            deserializer.deserialize_bytes(Number)?
        };
        let (low, high) = split_balance(whole);
        Ok(Self { low, high })
    }
}

struct Number;

impl de::Visitor<'_> for Number {
    type Value = WholeBalance;

    fn expecting(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("a balance of 32 or 40 bytes")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<WholeBalance, E> {
        // One number has one encoding.
        let is_canonical = bytes.len() == 32 || bytes.len() == 40 && bytes[..8] != [0; 8];
        WholeBalance::try_from_be_slice(bytes)
            .filter(|_| is_canonical)
            .ok_or_else(|| E::invalid_length(bytes.len(), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<WholeBalance, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<WholeBalance, E> {
        Ok(WholeBalance::from(number))
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
