//! Arguments of method calls.

use alloy_primitives::{Address, Bytes};
use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;
use tenon_sdk::Failure;
use tenon_sdk::{Param, RawArgument};

/// Maximum number of arguments.
const MAX_ARGUMENTS: usize = 8;

/// The arguments of a call, as JSON.
pub(crate) struct Arguments<'a>(Vec<&'a RawValue>);

impl<'a> Arguments<'a> {
    pub(crate) fn new(params: Option<&'a str>) -> Result<Self, Failure> {
        let arguments: Vec<&RawValue> =
            serde_json::from_str(params.unwrap_or("[]")).map_err(|_| Failure::non_array_arguments())?;
        match arguments.len() > MAX_ARGUMENTS {
            true => Err(Failure::too_many_arguments(MAX_ARGUMENTS)),
            false => Ok(Self(arguments)),
        }
    }

    /// Rejects arguments beyond the number that a method has, because a client that passes more expects something else.
    /// `null` counts as a missing argument.
    pub(super) fn at_most(&self, number: usize) -> Result<(), Failure> {
        match self.0.iter().skip(number).any(|value| value.get() != "null") {
            true => Err(Failure::too_many_arguments(number)),
            false => Ok(()),
        }
    }

    fn text(&self, position: usize) -> Result<&'a str, Failure> {
        let given = self.0.get(position).map(|value| value.get()).filter(|text| *text != "null");
        given.ok_or_else(|| Failure::missing_argument(position))
    }

    /// Decodes an argument in the formats of the node's methods.
    pub(super) fn param<T: Param>(&self, position: usize) -> Result<T, Failure> {
        T::decode(RawArgument::new(self.text(position)?)).map_err(|error| Failure::invalid_argument(position, error))
    }

    /// Decodes an argument as JSON.
    pub(super) fn structure<T: Deserialize<'a>>(&self, position: usize) -> Result<T, Failure> {
        serde_json::from_str(self.text(position)?).map_err(|error| Failure::invalid_argument(position, error))
    }

    pub(super) fn address(&self, position: usize) -> Result<Address, Failure> {
        self.param(position)
    }

    pub(super) fn bytes(&self, position: usize) -> Result<Bytes, Failure> {
        self.param(position)
    }
}

/// An integer, as a JSON number or as a quantity such as `0x10`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole(pub(super) u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Whole;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a whole number, or a quantity such as \"0x10\"")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Whole, E> {
                Ok(Whole(number))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Whole, E> {
                let digits =
                    text.strip_prefix("0x").filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
                let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
                number.map(Whole).ok_or_else(|| E::custom("not a 64-bit quantity such as \"0x10\""))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
