//! The options object of a trace.

use std::time::Duration;

use alloy_rpc_types_trace::geth::{GethDebugTracerType, GethDebugTracingOptions};
use revm_inspectors::tracing::{DebugInspector, DebugInspectorError};
use tenon_api::Failure;

use crate::ExecutionLimits;

/// Validated options.
#[derive(Debug)]
pub(crate) struct TraceOptions {
    pub(super) geth: GethDebugTracingOptions,
    /// Maximum time of one traced transaction.
    pub(super) timeout: Duration,
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
        let options = Self { geth, timeout };
        options.inspector()?;
        Ok(options)
    }

    /// A new inspector for these options.
    ///
    /// Tracers written in JavaScript would be added here: they are distinguished from built-in ones, and refused by
    /// name.
    pub(super) fn inspector(&self) -> Result<DebugInspector, Failure> {
        DebugInspector::new(self.geth.clone()).map_err(|error| match (&error, &self.geth.tracer) {
            (DebugInspectorError::JsTracerNotEnabled, Some(GethDebugTracerType::JsTracer(source))) => {
                Failure::server(format!(
                    "tracer {} is not available: JavaScript tracers are not supported, only {} and the struct logger",
                    shortened(source),
                    BUILT_IN_TRACERS.join(", ")
                ))
            }
            (DebugInspectorError::InvalidTracerConfig, _) => Failure::server("invalid tracerConfig"),
            _ => Failure::server(error.to_string()),
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

fn shortened(source: &str) -> String {
    const MAX_LENGTH: usize = 40;
    let is_long = source.chars().count() > MAX_LENGTH;
    let start: String = source.chars().take(MAX_LENGTH).collect();
    if is_long { format!("{start:?}…") } else { format!("{start:?}") }
}

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

        let wanted = "tracer \"noSuchTracer\" is not available: JavaScript tracers are not supported, only callTracer, \
                      prestateTracer, 4byteTracer, flatCallTracer, muxTracer, noopTracer, erc7562Tracer, stateGasTracer and the \
                      struct logger";
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
    fn javascript_tracers_are_refused_by_name() {
        let limits = ExecutionLimits::default();

        let refused = TraceOptions::parse(r#"{"tracer":"opcountTracer"}"#, &limits).err().unwrap();

        assert!(refused.message.starts_with("tracer \"opcountTracer\" is not available"), "{}", refused.message);
    }

    #[test]
    fn a_timeout_is_reduced_to_the_maximum() {
        let limits = ExecutionLimits::default();

        let options = TraceOptions::parse(r#"{"timeout":"100h"}"#, &limits).unwrap();

        assert_eq!(options.timeout, limits.trace_timeout_max);
    }
}
