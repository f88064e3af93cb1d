//! The options object of a trace.

use std::time::Duration;

use alloy_rpc_types_trace::geth::{GethDebugBuiltInTracerType, GethDebugTracerType, GethDebugTracingOptions};
use revm_inspectors::tracing::{DebugInspector, DebugInspectorError};
use tenon_api::Failure;

use super::scripts::{ScriptSource, is_name, unknown_name};
use crate::ExecutionLimits;

/// Validated options.
#[derive(Debug)]
pub(crate) struct TraceOptions {
    pub(super) geth: GethDebugTracingOptions,
    /// Maximum time of one traced transaction.
    pub(super) timeout: Duration,
    /// JSON text of the configuration, for scripts.
    script_config: String,
}

impl TraceOptions {
    /// Parses the JSON text of an options object; `null` means none.
    ///
    /// # Errors
    /// Code `-32602` if it is not such an object, `-32000` for an invalid duration or an unknown tracer.
    pub(crate) fn parse(json: &str, limits: &ExecutionLimits) -> Result<Self, Failure> {
        let geth: Option<GethDebugTracingOptions> = serde_json::from_str(json)
            .map_err(|error| Failure::invalid_params(format!("invalid trace options: {error}")))?;
        let geth = geth.unwrap_or_default();
        let timeout = match &geth.timeout {
            Some(text) => parse_go_duration(text).map_err(Failure::server)?.min(limits.trace_timeout_max),
            None => limits.trace_timeout,
        };
        let config = &geth.tracer_config.0;
        let script_config = if config.is_null() { "{}".to_owned() } else { config.to_string() };
        let options = Self { geth, timeout, script_config };
        match options.script() {
            Some(script) if is_name(script.source) => return Err(unknown_name(script.source, &BUILT_IN_TRACERS)),
            Some(_) => {}
            None => drop(options.inspector()?),
        }
        Ok(options)
    }

    /// Whether the tracer records calls and no steps.
    pub(super) fn records_calls_only(&self) -> bool {
        self.geth.tracer == Some(GethDebugTracerType::BuiltInTracer(GethDebugBuiltInTracerType::CallTracer))
    }

    /// The script, if the tracer is one.
    pub(super) fn script(&self) -> Option<ScriptSource<'_>> {
        match &self.geth.tracer {
            Some(GethDebugTracerType::JsTracer(source)) => Some(ScriptSource { source, config: &self.script_config }),
            _ => None,
        }
    }

    /// A new inspector for these options. Scripts have none.
    pub(super) fn inspector(&self) -> Result<DebugInspector, Failure> {
        DebugInspector::new(self.geth.clone()).map_err(|error| match error {
            DebugInspectorError::InvalidTracerConfig => Failure::server("invalid tracerConfig"),
            error => Failure::server(error.to_string()),
        })
    }
}

/// The tracers by name; a test checks completeness.
const BUILT_IN_TRACERS: [&str; 8] = [
    "callTracer",
    "prestateTracer",
    "4byteTracer",
    "flatCallTracer",
    "muxTracer",
    "noopTracer",
    "erc7562Tracer",
    "stateGasTracer",
];

/// Parses a duration in Go's format: `5s`, `300ms`, `1m30s`, `1.5h`.
pub(super) fn parse_go_duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let unit_at = rest.find(|character: char| !character.is_ascii_digit() && character != '.');
        let (number, tail) = rest.split_at(unit_at.unwrap_or(rest.len()));
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let unit_end = tail.find(|character: char| character.is_ascii_digit() || character == '.');
        let (unit, tail) = tail.split_at(unit_end.unwrap_or(tail.len()));
        let seconds = match unit {
            "" => return Err(format!("time: missing unit in duration {text:?}")),
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            unit => return Err(format!("time: unknown unit {unit:?} in duration {text:?}")),
        };
        total += number * seconds;
        rest = tail;
    }
    Duration::try_from_secs_f64(total).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use alloy_rpc_types_trace::geth::GethDebugBuiltInTracerType as Tracer;

    use super::*;

    /// Does not compile if a tracer is added that is not named here.
    fn name(tracer: Tracer) -> &'static str {
        match tracer {
            Tracer::CallTracer => "callTracer",
            Tracer::PreStateTracer => "prestateTracer",
            Tracer::FourByteTracer => "4byteTracer",
            Tracer::FlatCallTracer => "flatCallTracer",
            Tracer::MuxTracer => "muxTracer",
            Tracer::NoopTracer => "noopTracer",
            Tracer::Erc7562Tracer => "erc7562Tracer",
            Tracer::StateGasTracer => "stateGasTracer",
        }
    }

    #[test]
    fn an_unknown_tracer_is_refused_with_the_names_of_all_that_exist() {
        for listed in BUILT_IN_TRACERS {
            let tracer: Tracer = serde_json::from_value(listed.into()).unwrap();
            assert_eq!(name(tracer), listed);
        }

        let refused = TraceOptions::parse(r#"{"tracer":"noSuchTracer"}"#, &ExecutionLimits::default()).unwrap_err();

        let wanted = "tracer \"noSuchTracer\" is not available: there are callTracer, prestateTracer, 4byteTracer, \
                      flatCallTracer, muxTracer, noopTracer, erc7562Tracer, stateGasTracer, the struct logger, and \
                      tracers written in JavaScript";
        assert_eq!(refused.message, wanted);
    }

    #[test]
    fn go_durations_are_parsed() {
        let cases = [("5s", 5000), ("300ms", 300), ("1m30s", 90_000), ("1.5s", 1500), ("0", 0), ("1h", 3_600_000)];
        for (text, millis) in cases {
            assert_eq!(parse_go_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_refused_with_gos_texts() {
        let cases = [
            ("10", "time: missing unit in duration \"10\""),
            ("abc", "time: invalid duration \"abc\""),
            ("", "time: invalid duration \"\""),
            ("-5s", "time: invalid duration \"-5s\""),
            ("1x", "time: unknown unit \"x\" in duration \"1x\""),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_go_duration(text), Err(expected.to_owned()));
        }
    }

    #[test]
    fn scripts_keep_their_configuration_as_text() {
        let limits = ExecutionLimits::default();
        let cases = [
            (r#"{"tracer":"{a: 1}"}"#, "{}"),
            (r#"{"tracer":"{a: 1}","tracerConfig":null}"#, "{}"),
            (r#"{"tracer":"{a: 1}","tracerConfig":{"b":[2]}}"#, r#"{"b":[2]}"#),
        ];
        for (options, config) in cases {
            let options = TraceOptions::parse(options, &limits).unwrap();
            let script = options.script().unwrap();
            assert_eq!((script.source, script.config), ("{a: 1}", config));
        }
    }

    #[test]
    fn a_timeout_is_reduced_to_the_maximum() {
        let limits = ExecutionLimits::default();

        let options = TraceOptions::parse(r#"{"timeout":"100h"}"#, &limits).unwrap();

        assert_eq!(options.timeout, limits.trace_timeout_max);
    }
}
