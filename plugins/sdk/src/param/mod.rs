//! Decodes positional parameters from raw JSON, with the reference client's error texts (`docs/spec/rpc-eth.md` 4,
//! `docs/spec/rpc-node.md` 1.2).
//!
//! No value tree is built: each parameter's decoder gets the text of its own value.

mod block;
mod hex;
mod json;
mod object;
mod raw;

use std::fmt;

use crate::{Failure, FailureCode};

pub use block::{BlockNumberParam, BlockParam, EpochParam};
pub use hex::{Index, Quantity};
pub use json::{Json, Number};
pub use object::Object;
pub use raw::RawArgument;

pub(crate) use raw::Values;

/// Why a value was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentError {
    /// The value has the wrong type: `json: cannot unmarshal <reason> into Go value of type <type>`.
    Mismatch {
        /// Description of the wrong value, such as `non-string` or `hex string of odd length`.
        reason: &'static str,
        /// The reference's name of the type, such as `common.Address`.
        type_name: &'static str,
        /// The reference's name of the object member that holds the value, such as `TransactionArgs.from`.
        field: Option<String>,
    },
    /// Any other text, unchanged.
    Text(String),
}

impl ArgumentError {
    /// A value of the wrong type.
    pub const fn mismatch(reason: &'static str, type_name: &'static str) -> Self {
        Self::Mismatch { reason, type_name, field: None }
    }

    /// Any other text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Adds the object and member that hold the value (`docs/spec/rpc-eth.md` 4.2); an inner member keeps its own name.
    #[must_use]
    pub fn in_field(self, structure: &str, member: &str) -> Self {
        match self {
            Self::Mismatch { reason, type_name, field: None } => {
                Self::Mismatch { reason, type_name, field: Some(format!("{structure}.{member}")) }
            }
            other => other,
        }
    }
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mismatch { reason, type_name, field: None } => {
                write!(formatter, "json: cannot unmarshal {reason} into Go value of type {type_name}")
            }
            Self::Mismatch { reason, type_name, field: Some(field) } => {
                write!(formatter, "json: cannot unmarshal {reason} into Go struct field {field} of type {type_name}")
            }
            Self::Text(text) => formatter.write_str(text),
        }
    }
}

/// A type that a parameter can have.
pub trait Param: Sized + Send + 'static {
    /// Decodes a given value.
    ///
    /// # Errors
    /// The reason for refusing it, as the text after `invalid argument N: `.
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError>;

    /// The default of an omitted argument; `None` if it is required.
    fn missing() -> Option<Self> {
        None
    }

    /// Its schema in the OpenRPC document.
    fn description() -> ParamDescription {
        ParamDescription::required("{}")
    }
}

/// A parameter in the OpenRPC document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamDescription {
    /// Whether it must be given.
    pub is_required: bool,
    /// JSON text of its JSON Schema.
    pub schema: &'static str,
    /// Whether it is a password or a key: the host wipes its text and never shows it.
    pub is_secret: bool,
}

impl ParamDescription {
    /// A parameter that must be given, with the JSON text of its JSON Schema.
    pub const fn required(schema: &'static str) -> Self {
        Self { is_required: true, schema, is_secret: false }
    }

    /// Marks the parameter as a password or a key.
    #[must_use]
    pub const fn secret(self) -> Self {
        Self { is_secret: true, ..self }
    }
}

/// Optional: an omitted argument and `null` are the same.
impl<T: Param> Param for Option<T> {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        if raw.is_null() { Ok(None) } else { T::decode(raw).map(Some) }
    }

    fn missing() -> Option<Self> {
        Some(None)
    }

    fn description() -> ParamDescription {
        ParamDescription { is_required: false, ..T::description() }
    }
}

/// The values of a `params` array, taken one after another.
pub(crate) struct Arguments<'a> {
    values: Values<'a>,
    /// Position of the next value.
    position: usize,
    /// Number of parameters that the method takes.
    expected: usize,
    has_ended: bool,
}

impl<'a> Arguments<'a> {
    /// `params` is absent (empty), `null` or an array.
    pub(crate) fn new(params: &'a [u8], expected: usize) -> Result<Self, Failure> {
        let text = std::str::from_utf8(params).map_err(|_| Failure::non_array_arguments())?.trim_ascii();
        let text = if text.is_empty() || text == "null" { "[]" } else { text };
        let values = Values::of_array(text).ok_or_else(Failure::non_array_arguments)?;
        Ok(Self { values, position: 0, expected, has_ended: false })
    }

    /// The arguments after the kind of a subscription. Errors count the kind as an argument (`docs/spec/rpc-eth.md`
    /// 15).
    pub(crate) fn after_kind(params: &'a [u8], expected: usize) -> Result<Self, Failure> {
        Ok(Self { position: 1, expected: expected + 1, ..Self::new(params, expected)? })
    }

    pub(crate) fn next<T: Param>(&mut self) -> Result<T, Failure> {
        let position = self.position;
        self.position += 1;
        let given = if self.has_ended { None } else { self.take()? };
        match given {
            Some(raw) => T::decode(raw).map_err(|error| Failure::invalid_argument(position, error)),
            None => {
                self.has_ended = true;
                T::missing().ok_or_else(|| Failure::missing_argument(position))
            }
        }
    }

    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        if self.has_ended || self.take()?.is_none() {
            return Ok(());
        }
        Err(Failure::too_many_arguments(self.expected))
    }

    fn take(&mut self) -> Result<Option<RawArgument<'a>>, Failure> {
        // The envelope was parsed before, so this fails only if the host passes something else.
        self.values.next().map_err(|_| Failure { code: FailureCode::PARSE, message: "parse error".into(), data: None })
    }
}

#[cfg(test)]
mod tests;
