//! Results: finished JSON as the reference writes it (`docs/spec/rpc-eth.md` 3.1, `docs/spec/rpc-node.md` 1.3).

use std::{
    any::{Any, TypeId},
    io,
};

use crate::Failure;
use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Serialize, Serializer};
use serde_json::{
    ser::{Formatter, Serializer as JsonSerializer},
    value::RawValue,
};

use crate::{
    param::{ParamDescription, Quantity},
    shapes::{JsonWriter, schema},
};

/// Bytes as `0x` and two hex digits per byte; `0x` if empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Data(pub Bytes);

impl<T: Into<Bytes>> From<T> for Data {
    fn from(bytes: T) -> Self {
        Self(bytes.into())
    }
}

/// Finished JSON text from elsewhere; it is checked and written unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawJson(pub String);

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        value.serialize(serializer)
    }
}

/// Writes a result. `<`, `>`, `&`, U+2028 and U+2029 inside strings are escaped.
///
/// # Errors
/// `-32000` with the encoder's text if the value has no JSON form.
pub fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Failure> {
    let mut json = Vec::with_capacity(128);
    let mut serializer = JsonSerializer::with_formatter(&mut json, Escaping);
    value.serialize(&mut serializer).map_err(|error| Failure::server(format!("json: {error}")))?;
    Ok(json)
}

/// Capacity for any quantity with its quotation marks.
const QUANTITY_ROOM: usize = r#""0x""#.len() + 16;

/// The text of a method's result. A [`JsonWriter`] is returned without copying its text: for a block of a hundred
/// transactions that would be a hundred kilobytes.
pub(crate) fn finished<T: Serialize + 'static>(result: T) -> Result<Vec<u8>, Failure> {
    let mut result = Some(result);
    let known = &mut result as &mut dyn Any;
    if let Some(written) = known.downcast_mut::<Option<JsonWriter>>().and_then(Option::take) {
        return Ok(written.into_bytes());
    }
    // The other frequent result of small reads; digits need no escaping, so the serializer is skipped.
    if let Some(Some(Quantity(number))) = known.downcast_ref::<Option<Quantity>>() {
        let mut json = JsonWriter::with_capacity(QUANTITY_ROOM);
        json.quantity(*number);
        return Ok(json.into_bytes());
    }
    to_json(&result)
}

/// Compact JSON with the reference's escapes.
struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: io::Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let bytes = fragment.as_bytes();
        // The loop has no branch, so that it is vectorised: nearly every string is hex and has none of these bytes.
        let is_suspicious = bytes.iter().fold(false, |found, &byte| found | matches!(byte, b'<' | b'>' | b'&' | 0xe2));
        if is_suspicious { write_escaped(writer, fragment) } else { writer.write_all(bytes) }
    }
}

fn write_escaped<W: io::Write + ?Sized>(writer: &mut W, fragment: &str) -> io::Result<()> {
    let mut written = 0;
    for (at, character) in fragment.char_indices() {
        let escape = match character {
            '<' => "\\u003c",
            '>' => "\\u003e",
            '&' => "\\u0026",
            '\u{2028}' => "\\u2028",
            '\u{2029}' => "\\u2029",
            _ => continue,
        };
        writer.write_all(&fragment.as_bytes()[written..at])?;
        writer.write_all(escape.as_bytes())?;
        written = at + character.len_utf8();
    }
    writer.write_all(&fragment.as_bytes()[written..])
}

/// Text before the schema of a result.
const RESULT: &str = r#","result":{"name":"result","schema":"#;

/// Replaces a description's schema of the result.
pub(crate) fn with_result(description: &str, schema: &str) -> String {
    let before = description.rfind(RESULT).and_then(|end| description.get(..end)).unwrap_or(description);
    format!("{before}{RESULT}{schema}}}}}")
}

/// Sets the schema of a parameter whose type does not define one.
pub(crate) fn with_parameter(description: &str, name: &str, schema: &str) -> String {
    let written = |schema: &str, is_required: bool| {
        format!(r#"{{"name":{},"required":{is_required},"schema":{schema}}}"#, serde_json::Value::from(name))
    };
    let replaced = description.replacen(&written("{}", true), &written(schema, true), 1);
    replaced.replacen(&written("{}", false), &written(schema, false), 1)
}

/// The schema of results of this type; `{}` if the type does not define one.
pub(crate) fn schema_of<T: 'static>() -> &'static str {
    let found = TypeId::of::<T>();
    let known = [
        (TypeId::of::<Quantity>(), schema::QUANTITY),
        (TypeId::of::<Option<Quantity>>(), schema::QUANTITY_OR_NULL),
        (TypeId::of::<U256>(), schema::QUANTITY),
        (TypeId::of::<Option<U256>>(), schema::QUANTITY_OR_NULL),
        (TypeId::of::<B256>(), schema::HASH),
        (TypeId::of::<Vec<B256>>(), schema::HASHES),
        (TypeId::of::<Address>(), schema::ADDRESS),
        (TypeId::of::<Vec<Address>>(), schema::ADDRESSES),
        (TypeId::of::<Bytes>(), schema::DATA),
        (TypeId::of::<Data>(), schema::DATA),
        (TypeId::of::<Option<Data>>(), schema::DATA_OR_NULL),
        (TypeId::of::<bool>(), schema::BOOLEAN),
        (TypeId::of::<Option<bool>>(), schema::BOOLEAN_OR_NULL),
        (TypeId::of::<String>(), schema::TEXT),
        (TypeId::of::<u64>(), schema::INTEGER),
        (TypeId::of::<i64>(), schema::INTEGER),
        (TypeId::of::<()>(), schema::NULL),
    ];
    known.into_iter().find(|(known, _)| *known == found).map_or("{}", |(_, schema)| schema)
}

/// The JSON text of an OpenRPC method object without its `name`.
pub(crate) fn describe_method(summary: &str, names: &[&str], parameters: &[ParamDescription], result: &str) -> String {
    let text = |value: &str| serde_json::Value::from(value).to_string();
    let parameters: Vec<String> = names
        .iter()
        .zip(parameters)
        .map(|(name, parameter)| {
            let ParamDescription { is_required, schema, .. } = parameter;
            format!(r#"{{"name":{},"required":{is_required},"schema":{schema}}}"#, text(name))
        })
        .collect();
    format!(
        r#"{{"summary":{},"paramStructure":"by-position","params":[{}]{RESULT}{result}}}}}"#,
        text(summary),
        parameters.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written<T: Serialize>(value: T) -> String {
        String::from_utf8(to_json(&value).expect("JSON")).expect("UTF-8")
    }

    #[test]
    fn escapes_the_same_characters_as_the_reference() {
        assert_eq!(written("a<b>&\u{2028}\u{2029}é\"\n"), "\"a\\u003cb\\u003e\\u0026\\u2028\\u2029é\\\"\\n\"");
        assert_eq!(written("€ costs a suspicious byte but no escape"), "\"€ costs a suspicious byte but no escape\"");
    }

    #[test]
    fn a_result_is_the_same_text_whether_the_method_or_the_sdk_wrote_it() {
        let mut json = JsonWriter::default();
        json.string("<");

        assert_eq!(finished(json), to_json("<"));
        assert_eq!(finished("<"), to_json("<"));
        for number in [0, 7, u64::MAX] {
            assert_eq!(finished(Quantity(number)), to_json(&Quantity(number)));
        }
        assert_eq!(finished(Some(7)), to_json(&7));
        assert_eq!(finished(None::<u8>), to_json(&()));
    }

    #[test]
    fn quantities_are_minimal_hex() {
        for (value, text) in [(0, "0x0"), (1, "0x1"), (0x10, "0x10"), (u64::MAX, "0xffffffffffffffff")] {
            assert_eq!(written(crate::Quantity(value)), format!("\"{text}\""));
        }
    }

    #[test]
    fn data_of_no_bytes_is_the_prefix() {
        assert_eq!(written(Data::default()), "\"0x\"");
        assert_eq!(written(Data::from(vec![0, 0xab])), "\"0x00ab\"");
    }

    #[test]
    fn finished_json_is_written_unchanged_and_broken_json_is_refused() {
        assert_eq!(written(RawJson("{\"a\": [1,  2]}".into())), "{\"a\": [1,  2]}");
        assert!(to_json(&RawJson("{\"a\":".into())).is_err());
    }

    #[test]
    fn a_method_is_described_by_names_and_types() {
        let parameters = [
            ParamDescription::required("{}"),
            ParamDescription { is_required: false, schema: "true", is_secret: false },
        ];

        let text = describe_method("Says \"x\".", &["a", "b"], &parameters, "{}");

        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["summary"], "Says \"x\".");
        assert_eq!(value["params"][1], serde_json::json!({"name": "b", "required": false, "schema": true}));
        assert_eq!(value["result"], serde_json::json!({"name": "result", "schema": {}}));
        let other: serde_json::Value =
            serde_json::from_str(&with_parameter(&text.replace("true}]", "{}}]"), "b", schema::HASH)).expect("JSON");
        assert_eq!(other["params"][1]["schema"]["type"], "string");
        let replaced: serde_json::Value = serde_json::from_str(&with_result(&text, schema::HASH)).expect("JSON");
        assert_eq!(replaced["result"]["schema"]["type"], "string");
        assert_eq!(replaced["params"], value["params"]);
        assert_eq!((schema_of::<u64>(), schema_of::<Vec<u64>>()), (schema::INTEGER, "{}"));
    }
}
