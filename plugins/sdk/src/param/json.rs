//! Booleans, strings, plain numbers, lists, and every type that serde can deserialise.

use serde::de::DeserializeOwned;
use tenon_api::{SecretText, beginning_of};

use super::{ArgumentError, Param, ParamDescription, RawArgument};

/// Every type that serde can deserialise. Member names are matched as `T` defines; to accept them in any letter case,
/// with the reference's errors, decode with [`Object`](super::Object) instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned + Send + 'static> Param for Json<T> {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        let refused = |error| ArgumentError::text(format!("json: {}", shown_problem(&error)));
        serde_json::from_str(raw.as_str()).map(Self).map_err(refused)
    }
}

/// What serde expects, as it names the types of a program, and in terms of JSON.
const EXPECTED: [(&str, &str); 11] = [
    ("internally tagged enum ", "an object"),
    ("adjacently tagged enum ", "an object"),
    ("tuple struct ", "an array"),
    ("tuple variant ", "an array"),
    ("struct variant ", "an object"),
    ("unit variant ", "a name"),
    ("unit struct ", "null"),
    ("newtype variant ", "a value"),
    ("struct ", "an object"),
    ("a map", "an object"),
    ("a sequence", "an array"),
];

/// The same for numbers.
const NUMBERS: [(&str, &str); 12] = [
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u64", "a whole number of 0 or more"),
    ("usize", "a whole number of 0 or more"),
    ("i8", "a whole number"),
    ("i16", "a whole number"),
    ("i32", "a whole number"),
    ("i64", "a whole number"),
    ("isize", "a whole number"),
    ("f32", "a number"),
    ("f64", "a number"),
];

/// The beginning of serde's error for a value that fits no alternative, before the name of their type.
const NO_VARIANT: &str = "data did not match any variant of untagged enum ";

/// The text after its first word.
fn after_word(text: &str) -> &str {
    text.find(' ').map_or("", |end| text.split_at(end).1)
}

/// What serde expects in terms of JSON, and the text after it; `None` if it names no type of a program.
fn in_terms_of_json(expected: &str) -> Option<(&'static str, &str)> {
    let of_kind = |(kind, json): &(&'static str, &'static str)| Some((*json, after_word(expected.strip_prefix(kind)?)));
    let after = after_word(expected);
    let number = || NUMBERS.iter().find(|(name, _)| expected.strip_suffix(after) == Some(*name));
    EXPECTED.iter().find_map(of_kind).or_else(|| number().map(|(_, json)| (*json, after)))
}

/// The text of an error of serde, without the names of types, which clients do not know. A value of the request can be
/// in it: of a long text, the beginning.
pub(crate) fn shown_problem(problem: &dyn std::fmt::Display) -> String {
    const MAX_LENGTH: usize = 200;
    let text = problem.to_string();
    if let Some((before, expected)) = text.rsplit_once(", expected ") {
        let (value, dots) = beginning_of(before, MAX_LENGTH);
        let (expected, after) = in_terms_of_json(expected).unwrap_or((expected, ""));
        let (expected, more) = beginning_of(expected, MAX_LENGTH);
        let (after, _) = beginning_of(after, MAX_LENGTH);
        return [value, dots, ", expected ", expected, more, after].concat();
    }
    if let Some(name) = text.strip_prefix(NO_VARIANT) {
        return format!("the value has none of the possible forms{}", after_word(name));
    }
    let (beginning, dots) = beginning_of(&text, MAX_LENGTH);
    [beginning, dots].concat()
}

/// A plain JSON integer (`num` of `docs/spec/rpc-node.md` 1.2); `null` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(pub u64);

impl Param for Number {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        const TYPE: &str = "uint64";
        match raw.kind() {
            "null" => Ok(Self(0)),
            "number" => raw.as_str().parse().map(Self).map_err(|_| {
                ArgumentError::text(format!(
                    "json: cannot unmarshal number {} into Go value of type {TYPE}",
                    raw.as_str()
                ))
            }),
            kind => Err(ArgumentError::mismatch(kind, TYPE)),
        }
    }

    fn description() -> ParamDescription {
        ParamDescription::required(r#"{"type":"integer","minimum":0}"#)
    }
}

impl Param for bool {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        match raw.as_str() {
            "true" => Ok(true),
            "false" | "null" => Ok(false),
            _ => Err(ArgumentError::mismatch(raw.kind(), "bool")),
        }
    }

    fn description() -> ParamDescription {
        ParamDescription::required(r#"{"type":"boolean"}"#)
    }
}

impl Param for String {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        if raw.is_null() {
            return Ok(Self::new());
        }
        raw.string().map(std::borrow::Cow::into_owned).ok_or(ArgumentError::mismatch(raw.kind(), "string"))
    }

    fn description() -> ParamDescription {
        ParamDescription::required(r#"{"type":"string"}"#)
    }
}

/// A password or another secret; `null` is the empty text.
impl Param for SecretText {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        String::decode(raw).map(Self::new)
    }

    fn description() -> ParamDescription {
        String::description().secret()
    }
}

/// A list of JSON numbers, such as the percentiles of `eth_feeHistory`.
impl Param for Vec<f64> {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        if raw.is_null() {
            return Ok(Self::new());
        }
        let values = raw.array().ok_or(ArgumentError::mismatch(raw.kind(), "[]float64"))?;
        values
            .map(|value| match value.kind() {
                "null" => Ok(0.0),
                "number" => value.as_str().parse().map_err(|_| ArgumentError::mismatch("number", "float64")),
                kind => Err(ArgumentError::mismatch(kind, "float64")),
            })
            .collect()
    }

    fn description() -> ParamDescription {
        ParamDescription::required(r#"{"type":"array","items":{"type":"number"}}"#)
    }
}

macro_rules! lists {
    ($($type:ty => $name:literal),*) => {$(
        impl Param for Vec<$type> {
            fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
                if raw.is_null() {
                    return Ok(Self::new());
                }
                let values = raw.array().ok_or(ArgumentError::mismatch(raw.kind(), $name))?;
                values.map(<$type>::decode).collect()
            }

            fn description() -> ParamDescription {
                ParamDescription::required(r#"{"type":"array"}"#)
            }
        }
    )*};
}

lists! {
    alloy_primitives::Address => "[]common.Address",
    alloy_primitives::B256 => "[]common.Hash",
    alloy_primitives::Bytes => "[]hexutil.Bytes",
    String => "[]string"
}
