//! Options like go-ethereum's: members are spelt exactly, and everything is checked before anything is traced.

use std::collections::HashMap;

use crate::Failure;
use alloy_primitives::aliases::U8;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};
use tenon_api::messages::{
    CallTracerOptions, Erc7562Options, FlatCallTracerOptions, MuxedTracer, PrestateTracerOptions, StructLogOptions,
    TraceOptions, Tracer,
};
use tenon_api::shown_json_problem;

use super::{durations::parse_go_duration, invalid, is_name, quoted, read_config, unknown_name};

/// The tracers by name, with the names that errors of the mux tracer give them.
const NAMES: [(&str, &str); 8] = [
    ("callTracer", "CallTracer"),
    ("prestateTracer", "PreStateTracer"),
    ("4byteTracer", "FourByteTracer"),
    ("flatCallTracer", "FlatCallTracer"),
    ("muxTracer", "MuxTracer"),
    ("noopTracer", "NoopTracer"),
    ("erc7562Tracer", "Erc7562Tracer"),
    ("stateGasTracer", "StateGasTracer"),
];

/// The options object. Unknown members are skipped without being kept.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OptionsObject<'a> {
    tracer: Option<String>,
    #[serde(borrow)]
    tracer_config: Option<&'a RawValue>,
    timeout: Option<String>,
    enable_memory: Option<bool>,
    disable_memory: Option<bool>,
    disable_stack: Option<bool>,
    disable_storage: Option<bool>,
    enable_return_data: Option<bool>,
    disable_return_data: Option<bool>,
    /// Without effect; its type is checked.
    #[serde(rename = "debug")]
    _debug: Option<bool>,
    limit: Option<u64>,
}

/// Configuration of `callTracer`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallConfig {
    #[serde(default)]
    only_top_call: Option<bool>,
    #[serde(default)]
    with_log: Option<bool>,
}

/// Configuration of `prestateTracer`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PrestateConfig {
    #[serde(default)]
    diff_mode: Option<bool>,
    #[serde(default)]
    disable_code: Option<bool>,
    #[serde(default)]
    disable_storage: Option<bool>,
}

/// Configuration of `flatCallTracer`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FlatCallConfig {
    #[serde(default)]
    convert_parity_errors: Option<bool>,
    #[serde(default)]
    include_precompiles: Option<bool>,
}

/// Configuration of `erc7562Tracer`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Erc7562Config {
    #[serde(default)]
    stack_top_items_size: Option<u64>,
    /// Quantities.
    #[serde(default)]
    ignored_opcodes: Vec<U8>,
    #[serde(default)]
    with_log: Option<bool>,
}

pub(super) fn options(json: &str) -> Result<TraceOptions, Failure> {
    let object: Option<OptionsObject<'_>> = serde_json::from_str(json).map_err(|error| invalid(&error))?;
    let mut object = object.unwrap_or_default();
    let timeout = object.timeout.as_deref().map(parse_go_duration).transpose().map_err(Failure::server)?;
    let Some(name) = object.tracer.take() else {
        return Ok(TraceOptions { tracer: Tracer::StructLogger(struct_log(&object)), timeout });
    };
    let config = object.tracer_config.map_or(Ok(Value::Null), |config| read_config(config.get()));
    let tracer = config.and_then(|config| tracer_of(name, config)).map_err(Failure::server)?;
    Ok(TraceOptions { tracer, timeout })
}

/// `enable…` takes precedence over `disable…`, which counts only if `enable…` is absent.
fn struct_log(members: &OptionsObject<'_>) -> StructLogOptions {
    let is_on = |on: Option<bool>, off: Option<bool>| on.or_else(|| off.map(|is_off| !is_off)).unwrap_or(false);
    StructLogOptions {
        with_stack: !members.disable_stack.unwrap_or(false),
        with_memory: is_on(members.enable_memory, members.disable_memory),
        with_storage: !members.disable_storage.unwrap_or(false),
        with_return_data: is_on(members.enable_return_data, members.disable_return_data),
        limit: members.limit.map_or(0, |limit| i64::try_from(limit).unwrap_or(i64::MAX)),
    }
}

/// # Errors
/// The error's text.
fn tracer_of(name: String, config: Value) -> Result<Tracer, String> {
    Ok(match name.as_str() {
        "callTracer" => Tracer::Calls(calls(parsed(config)?)),
        "prestateTracer" => Tracer::Prestate(prestate(parsed(config)?)),
        "4byteTracer" => Tracer::Selectors,
        "flatCallTracer" => Tracer::FlatCalls(flat_calls(parsed(config)?)),
        "muxTracer" => Tracer::Mux(mux(parsed(config)?)?),
        "noopTracer" => Tracer::Noop,
        "erc7562Tracer" => Tracer::Erc7562(erc7562(parsed(config)?)),
        "stateGasTracer" => Tracer::StateGas,
        name if is_name(name) => return Err(unknown_name(name, &NAMES.map(|(name, _)| name))),
        _ => {
            let config = if config.is_null() { "{}".to_owned() } else { config.to_string() };
            Tracer::Script { source: name, config }
        }
    })
}

/// A configuration; `null` and an absent one are the default.
fn parsed<T: Default + DeserializeOwned>(config: Value) -> Result<T, String> {
    if config.is_null() {
        return Ok(T::default());
    }
    serde_json::from_value(config).map_err(|_| "invalid tracerConfig".to_owned())
}

fn calls(config: CallConfig) -> CallTracerOptions {
    let CallConfig { only_top_call, with_log } = config;
    CallTracerOptions { only_top_call: only_top_call.unwrap_or(false), with_logs: with_log.unwrap_or(false) }
}

fn prestate(config: PrestateConfig) -> PrestateTracerOptions {
    PrestateTracerOptions {
        is_difference: config.diff_mode.unwrap_or(false),
        without_code: config.disable_code.unwrap_or(false),
        without_storage: config.disable_storage.unwrap_or(false),
    }
}

fn flat_calls(config: FlatCallConfig) -> FlatCallTracerOptions {
    FlatCallTracerOptions {
        converts_errors: config.convert_parity_errors.unwrap_or(false),
        with_precompiles: config.include_precompiles.unwrap_or(false),
    }
}

fn erc7562(config: Erc7562Config) -> Erc7562Options {
    Erc7562Options {
        stack_items: config.stack_top_items_size,
        ignored_opcodes: config.ignored_opcodes.into_iter().map(|opcode| opcode.to::<u8>()).collect(),
        with_logs: config.with_log.unwrap_or(false),
    }
}

/// The tracers of a mux tracer, each with its configuration.
fn mux(config: HashMap<String, Option<Value>>) -> Result<Vec<MuxedTracer>, String> {
    config.into_iter().map(|(name, config)| muxed(&name, config)).collect()
}

fn muxed(name: &str, config: Option<Value>) -> Result<MuxedTracer, String> {
    let shown = NAMES.iter().find(|(known, _)| *known == name).map(|(_, shown)| *shown);
    let shown = shown.ok_or_else(|| format!("unsupported tracer type: 'JsTracer({})'", quoted(name)))?;
    let unexpected = || format!("unexpected config for tracer '{shown}'");
    let without = |tracer| if config.is_some() { Err(unexpected()) } else { Ok(tracer) };
    match name {
        "callTracer" => Ok(MuxedTracer::Calls(calls(required(config, shown)?))),
        "prestateTracer" => Ok(MuxedTracer::Prestate(prestate(required(config, shown)?))),
        "flatCallTracer" => Ok(MuxedTracer::FlatCalls(flat_calls(required(config, shown)?))),
        "4byteTracer" => without(MuxedTracer::Selectors),
        "noopTracer" => without(MuxedTracer::Noop),
        "stateGasTracer" => without(MuxedTracer::StateGas),
        _ => Err(unexpected()),
    }
}

/// The configuration of a tracer that must have one.
fn required<T: DeserializeOwned>(config: Option<Value>, shown: &str) -> Result<T, String> {
    let config = config.ok_or_else(|| format!("expected config is missing for tracer '{shown}'"))?;
    serde_json::from_value(config)
        .map_err(|error| format!("error deserializing config: {}", shown_json_problem(&error)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::FailureCode;

    use super::*;

    fn tracer(json: &str) -> Tracer {
        options(json).unwrap().tracer
    }

    #[test]
    fn the_struct_logger_records_what_its_members_say() {
        let cases = [
            ("{}", StructLogOptions::default()),
            (r#"{"enableMemory":true}"#, StructLogOptions { with_memory: true, ..Default::default() }),
            (r#"{"disableMemory":false}"#, StructLogOptions { with_memory: true, ..Default::default() }),
            (r#"{"disableMemory":false,"enableMemory":false}"#, StructLogOptions::default()),
            (r#"{"enableReturnData":true}"#, StructLogOptions { with_return_data: true, ..Default::default() }),
            (
                r#"{"disableStack":true,"disableStorage":true,"limit":7,"debug":true,"reexec":1}"#,
                StructLogOptions { with_stack: false, with_storage: false, limit: 7, ..Default::default() },
            ),
            // Another spelling is another member.
            (r#"{"DisableStack":true}"#, StructLogOptions::default()),
        ];
        for (json, expected) in cases {
            assert_eq!(tracer(json), Tracer::StructLogger(expected), "{json}");
        }
    }

    #[test]
    fn tracers_are_taken_by_name_with_their_configuration() {
        let calls = CallTracerOptions { only_top_call: true, with_logs: true };
        let prestate = PrestateTracerOptions { is_difference: true, without_code: true, without_storage: true };
        let flat = FlatCallTracerOptions { converts_errors: true, with_precompiles: true };
        let erc7562 = Erc7562Options { stack_items: Some(3), ignored_opcodes: vec![1, 255], with_logs: true };
        let cases = [
            ("callTracer", r#"{"onlyTopCall":true,"withLog":true}"#, Tracer::Calls(calls)),
            ("callTracer", "null", Tracer::Calls(CallTracerOptions::default())),
            (
                "prestateTracer",
                r#"{"diffMode":true,"disableCode":true,"disableStorage":true}"#,
                Tracer::Prestate(prestate),
            ),
            ("4byteTracer", "{}", Tracer::Selectors),
            ("flatCallTracer", r#"{"convertParityErrors":true,"includePrecompiles":true}"#, Tracer::FlatCalls(flat)),
            ("noopTracer", "null", Tracer::Noop),
            ("stateGasTracer", "null", Tracer::StateGas),
            (
                "erc7562Tracer",
                r#"{"stackTopItemsSize":3,"ignoredOpcodes":["0x1","0xff"],"withLog":true}"#,
                Tracer::Erc7562(erc7562),
            ),
            (
                "muxTracer",
                r#"{"callTracer":{"withLog":false}}"#,
                Tracer::Mux(vec![MuxedTracer::Calls(Default::default())]),
            ),
            ("muxTracer", r#"{"4byteTracer":null}"#, Tracer::Mux(vec![MuxedTracer::Selectors])),
        ];
        for (name, config, expected) in cases {
            assert_eq!(
                tracer(&format!(r#"{{"tracer":"{name}","tracerConfig":{config}}}"#)),
                expected,
                "{name} {config}"
            );
        }
    }

    #[test]
    fn scripts_keep_their_configuration_as_text() {
        let cases = [
            (r#"{"tracer":"{a: 1}"}"#, "{}"),
            (r#"{"tracer":"{a: 1}","tracerConfig":null}"#, "{}"),
            (r#"{"tracer":"{a: 1}","tracerConfig":{"b":[2]}}"#, r#"{"b":[2]}"#),
        ];
        for (json, config) in cases {
            let expected = Tracer::Script { source: "{a: 1}".to_owned(), config: config.to_owned() };
            assert_eq!(tracer(json), expected);
        }
    }

    #[test]
    fn what_cannot_be_traced_is_refused_at_once() {
        let cases = [
            (r#"{"timeout":"xyz"}"#, "time: invalid duration \"xyz\""),
            (r#"{"tracer":"callTracer","tracerConfig":{"withLog":1}}"#, "invalid tracerConfig"),
            (r#"{"tracer":"muxTracer","tracerConfig":[]}"#, "invalid tracerConfig"),
            (
                r#"{"tracer":"muxTracer","tracerConfig":{"callTracer":null}}"#,
                "expected config is missing for tracer 'CallTracer'",
            ),
            (
                r#"{"tracer":"muxTracer","tracerConfig":{"4byteTracer":{}}}"#,
                "unexpected config for tracer 'FourByteTracer'",
            ),
            (r#"{"tracer":"muxTracer","tracerConfig":{"muxTracer":{}}}"#, "unexpected config for tracer 'MuxTracer'"),
            (r#"{"tracer":"muxTracer","tracerConfig":{"{}":{}}}"#, "unsupported tracer type: 'JsTracer(\"{}\")'"),
            (
                r#"{"tracer":"noSuchTracer"}"#,
                "tracer \"noSuchTracer\" is not available: there are callTracer, prestateTracer, 4byteTracer, \
                 flatCallTracer, muxTracer, noopTracer, erc7562Tracer, stateGasTracer, the struct logger, and \
                 tracers written in JavaScript",
            ),
        ];
        for (json, expected) in cases {
            assert_eq!(options(json), Err(Failure::server(expected)), "{json}");
        }
        let refused = options(r#"{"limit":-1}"#).unwrap_err();
        assert_eq!(refused.code, FailureCode::INVALID_PARAMS);
        assert!(refused.message.starts_with("invalid trace options: invalid value: integer `-1`"), "{refused}");
    }

    #[test]
    fn a_time_limit_is_passed_on() {
        assert_eq!(options(r#"{"timeout":"100h"}"#).unwrap().timeout, Some(Duration::from_secs(360_000)));
    }
}
