//! Options like the reference's (`docs/spec/rpc-node.md` 4.2): members are spelt in any letter case. Their types are
//! checked at once. An unusable tracer is reported only for each transaction, because the reference first reports "not
//! found" for a missing block or transaction.

use crate::Failure;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::Value;
use tenon_api::messages::{
    CallTracerOptions, PrestateTracerOptions, SequenceLength, StructLogOptions, TraceOptions, Tracer,
};

use super::{durations::parse_go_duration, invalid, is_name, read_config, unknown_name};
use crate::param::{RawArgument, Values};

/// The tracers by name.
const NAMES: [&str; 12] = [
    "callTracer",
    "callTracerLegacy",
    "contractTracer",
    "evmdisTracer",
    "noopTracer",
    "prestateTracer",
    "4byteTracer",
    "4byteTracerLegacy",
    "opcountTracer",
    "unigramTracer",
    "bigramTracer",
    "trigramTracer",
];

/// The options object, with checked types.
#[derive(Debug, Default)]
struct OptionsObject<'a> {
    tracer: Option<String>,
    tracer_config: Option<RawArgument<'a>>,
    timeout: Option<String>,
    steps: StructLogOptions,
}

pub(super) fn options(json: &str) -> Result<TraceOptions, Failure> {
    let OptionsObject { tracer, tracer_config, timeout, steps } = object(json)?;
    // `timeout` has an effect only together with `tracer`.
    let Some(name) = tracer else { return Ok(TraceOptions { tracer: Tracer::StructLogger(steps), timeout: None }) };
    let timeout = timeout.as_deref().map(parse_go_duration).transpose();
    let options = timeout.and_then(|timeout| {
        let config = tracer_config.map(|config| read_config(config.as_str())).transpose()?;
        let tracer = tracer_of(name, config.as_ref())?;
        Ok(TraceOptions { tracer, timeout })
    });
    Ok(options.unwrap_or_else(|reason| TraceOptions { tracer: Tracer::Unusable { reason }, timeout: None }))
}

/// Reads the members. Names match in any letter case, unknown members are skipped, and of duplicates the last counts.
fn object(json: &str) -> Result<OptionsObject<'_>, Failure> {
    let mut options = OptionsObject::default();
    if serde_json::from_str::<Option<AnyObject>>(json).map_err(|error| invalid(&error))?.is_none() {
        return Ok(options);
    }
    let mut members = Values::of_object(RawArgument::new(json).as_str()).ok_or_else(|| invalid(&"not an object"))?;
    while let Some((key, value)) = members.next_member().map_err(|_| invalid(&"not an object"))? {
        if value.is_null() {
            continue;
        }
        let wrong = || invalid(&format_args!("{key} has a wrong type"));
        let flag = || value.as_str().parse::<bool>().map_err(|_| wrong());
        let text = || value.string().map(|text| Some(text.into_owned())).ok_or_else(wrong);
        match key.to_ascii_lowercase().as_str() {
            "tracer" => options.tracer = text()?,
            "timeout" => options.timeout = text()?,
            "tracerconfig" => options.tracer_config = Some(value),
            "enablememory" => options.steps.with_memory = flag()?,
            "disablestack" => options.steps.with_stack = !flag()?,
            "disablestorage" => options.steps.with_storage = !flag()?,
            "limit" => options.steps.limit = value.as_str().parse().map_err(|_| wrong())?,
            _ => {}
        }
    }
    Ok(options)
}

/// A JSON object of which nothing is kept.
struct AnyObject;

impl<'de> Deserialize<'de> for AnyObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AnyObject)
    }
}

impl<'de> Visitor<'de> for AnyObject {
    type Value = Self;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(self)
    }
}

/// # Errors
/// The error's text.
fn tracer_of(name: String, config: Option<&Value>) -> Result<Tracer, String> {
    Ok(match name.as_str() {
        "callTracer" => {
            let only_top_call = is_top_only(config)?;
            Tracer::Calls(CallTracerOptions { only_top_call, with_logs: false })
        }
        "contractTracer" => Tracer::Contracts { instruction: wanted_instruction(config)? },
        "callTracerLegacy" => Tracer::CallsLegacy,
        "evmdisTracer" => Tracer::Disassembly,
        "noopTracer" => Tracer::Noop,
        "prestateTracer" => Tracer::Prestate(PrestateTracerOptions::default()),
        "4byteTracer" => Tracer::Selectors,
        "4byteTracerLegacy" => Tracer::SelectorsLegacy,
        "opcountTracer" => Tracer::InstructionCount,
        "unigramTracer" => Tracer::Sequences(SequenceLength::One),
        "bigramTracer" => Tracer::Sequences(SequenceLength::Two),
        "trigramTracer" => Tracer::Sequences(SequenceLength::Three),
        name if is_name(name) => return Err(unknown_name(name, &NAMES)),
        // Scripts never see the configuration.
        _ => Tracer::Script { source: name, config: "{}".to_owned() },
    })
}

fn is_top_only(config: Option<&Value>) -> Result<bool, String> {
    match configured(config, "callTracerConfig", "onlyTopCall")? {
        None => Ok(false),
        Some(Value::Bool(is_top_only)) => Ok(*is_top_only),
        Some(other) => Err(wrong_member(other, "callTracerConfig.onlyTopCall", "bool")),
    }
}

fn wanted_instruction(config: Option<&Value>) -> Result<Option<String>, String> {
    match configured(config, "contractTracerConfig", "opCode")? {
        None => Ok(None),
        Some(Value::String(name)) => Ok(Some(name.clone()).filter(|name| !name.is_empty())),
        Some(other) => Err(wrong_member(other, "contractTracerConfig.opCode", "string")),
    }
}

/// A member of the tracer's own configuration.
fn configured<'a>(config: Option<&'a Value>, of: &str, member: &str) -> Result<Option<&'a Value>, String> {
    match config {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(members)) => {
            let found = members.iter().find(|(key, _)| key.eq_ignore_ascii_case(member));
            Ok(found.map(|(_, value)| value).filter(|value| !value.is_null()))
        }
        Some(other) => Err(format!("json: cannot unmarshal {} into Go value of type native.{of}", go_kind(other))),
    }
}

fn wrong_member(value: &Value, member: &str, wanted: &str) -> String {
    format!("json: cannot unmarshal {} into Go struct field {member} of type {wanted}", go_kind(value))
}

/// The name of a JSON value's type in Go's decoder.
const fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn tracer(json: &str) -> Tracer {
        options(json).unwrap().tracer
    }

    fn reason(json: &str) -> String {
        match tracer(json) {
            Tracer::Unusable { reason } => reason,
            other => panic!("{json} is {other:?}"),
        }
    }

    #[test]
    fn members_are_spelt_in_any_letter_case() {
        let steps = StructLogOptions {
            with_memory: true,
            with_stack: false,
            with_storage: false,
            limit: -3,
            ..StructLogOptions::default()
        };

        let json = r#"{"ENABLEMEMORY":true,"DisableStack":true,"disablestorage":true,"Limit":-3,"unknown":[]}"#;

        assert_eq!(tracer(json), Tracer::StructLogger(steps));
        let refused = options(r#"{"Limit":"x"}"#).unwrap_err();
        assert_eq!(refused, Failure::invalid_params("invalid trace options: Limit has a wrong type"));
    }

    #[test]
    fn every_named_tracer_of_the_reference_is_taken() {
        for name in NAMES {
            let chosen = tracer(&format!(r#"{{"Tracer":"{name}"}}"#));
            assert!(!matches!(chosen, Tracer::Unusable { .. } | Tracer::Script { .. }), "{name} is {chosen:?}");
        }
    }

    #[test]
    fn configurations_are_read() {
        let top_only = CallTracerOptions { only_top_call: true, with_logs: false };
        let cases = [
            (r#"{"tracer":"callTracer","tracerConfig":{"ONLYTOPCALL":true,"withLog":true}}"#, Tracer::Calls(top_only)),
            (r#"{"tracer":"contractTracer"}"#, Tracer::Contracts { instruction: None }),
            (r#"{"tracer":"contractTracer","tracerConfig":{"opCode":""}}"#, Tracer::Contracts { instruction: None }),
            (
                r#"{"tracer":"contractTracer","tracerConfig":{"opcode":"PUSH1"}}"#,
                Tracer::Contracts { instruction: Some("PUSH1".to_owned()) },
            ),
        ];
        for (json, expected) in cases {
            assert_eq!(tracer(json), expected, "{json}");
        }
    }

    #[test]
    fn wrong_configurations_are_reported_for_each_transaction_with_gos_texts() {
        let cases = [
            (
                r#"{"tracer":"callTracer","tracerConfig":{"onlytopcall":"x"}}"#,
                "json: cannot unmarshal string into Go struct field callTracerConfig.onlyTopCall of type bool",
            ),
            (
                r#"{"tracer":"callTracer","tracerConfig":0}"#,
                "json: cannot unmarshal number into Go value of type native.callTracerConfig",
            ),
            (r#"{"tracer":"callTracer","timeout":"xyz"}"#, "time: invalid duration \"xyz\""),
        ];
        for (json, expected) in cases {
            assert_eq!(reason(json), expected, "{json}");
        }
    }

    #[test]
    fn other_words_are_refused_with_the_names_that_exist_and_everything_else_is_a_script() {
        let wanted = "tracer \"noSuchTracer\" is not available: there are callTracer, callTracerLegacy, contractTracer, \
                      evmdisTracer, noopTracer, prestateTracer, 4byteTracer, 4byteTracerLegacy, opcountTracer, \
                      unigramTracer, bigramTracer, trigramTracer, the struct logger, and tracers written in JavaScript";
        assert_eq!(reason(r#"{"tracer":"noSuchTracer"}"#), wanted);
        for source in ["{}", "{", "1e30", "0x10", ""] {
            let json = serde_json::json!({ "tracer": source, "tracerConfig": { "a": 1 } }).to_string();
            let expected = Tracer::Script { source: source.to_owned(), config: "{}".to_owned() };
            assert_eq!(tracer(&json), expected);
        }
    }

    #[test]
    fn a_time_limit_holds_only_with_a_named_tracer() {
        let timeout = |json: &str| options(json).unwrap().timeout;

        assert_eq!(timeout(r#"{"timeout":"xyz"}"#), None);
        assert_eq!(timeout(r#"{"timeout":"1s"}"#), None);
        assert_eq!(timeout(r#"{"tracer":"callTracer","timeout":"1s"}"#), Some(Duration::from_secs(1)));
    }
}
