//! Booleans, strings, plain numbers, lists, and every type that serde can deserialise.

use serde::de::DeserializeOwned;
use tenon_api::{SecretText, shown_json_problem};

use super::{ArgumentError, Param, ParamDescription, RawArgument};

/// Every type that serde can deserialise. Member names are matched as `T` defines; to accept them in any letter case,
/// with the reference's errors, decode with [`Object`](super::Object) instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned + Send + 'static> Param for Json<T> {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        let refused = |error| ArgumentError::text(format!("json: {}", shown_json_problem(&error)));
        serde_json::from_str(raw.as_str()).map(Self).map_err(refused)
    }
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
