//! The options object of a trace: JSON of a client in, the typed options of the bus out.
//!
//! Each family of chains has tracers of its own, and reads the object in its own way: on the Ethereum profile like
//! go-ethereum, on the native profile like the reference (`docs/spec/rpc-node.md` 4.2). The two tables of names, with
//! their error texts, are here; the node decides what a tracer records.

mod durations;
mod ethereum;
mod reference;

use crate::Failure;
use serde_json::Value;
use tenon_api::{
    beginning_of,
    messages::{Profile, TraceOptions},
    shown_json_problem,
};

use crate::param::RawArgument;

/// Maximum number of JSON values in a tracer's configuration.
const MAX_CONFIG_VALUES: usize = 10_000;

/// Reads the JSON text of an options object; `null` means none.
///
/// # Errors
/// Code `-32602` if it is not such an object. On the Ethereum profile also `-32000` for an invalid duration,
/// an unknown tracer or a wrong configuration. The native profile reports these errors for each transaction, so there
/// they are part of the returned options.
pub fn trace_options(json: &str, profile: Profile) -> Result<TraceOptions, Failure> {
    match profile {
        Profile::Ethereum => ethereum::options(json),
        Profile::Native => reference::options(json),
    }
}

/// Returns whether an unknown tracer is a name rather than a script: a single word that is not a JavaScript value.
fn is_name(source: &str) -> bool {
    const VALUES: [&str; 7] = ["null", "undefined", "true", "false", "NaN", "Infinity", "this"];
    let is_word = source.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'-'));
    is_word && !source.is_empty() && !VALUES.contains(&source) && !is_number(source)
}

/// Returns whether a text is a number literal.
fn is_number(text: &str) -> bool {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match hexadecimal {
        Some(digits) => !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit()),
        None => text.starts_with(|first: char| first.is_ascii_digit()) && text.parse::<f64>().is_ok(),
    }
}

/// The error's text for an unknown name.
fn unknown_name(name: &str, known: &[&str]) -> String {
    format!(
        "tracer {} is not available: there are {}, the struct logger, and tracers written in JavaScript",
        quoted(name),
        known.join(", ")
    )
}

/// A text of the request in quotation marks, for an error. Of a long text, the beginning.
fn quoted(text: &str) -> String {
    const MAX_LENGTH: usize = 40;
    let (beginning, dots) = beginning_of(text, MAX_LENGTH);
    format!("{beginning:?}{dots}")
}

/// Reads a tracer's configuration.
///
/// # Errors
/// The error's text: it is too large, or not JSON.
fn read_config(json: &str) -> Result<Value, String> {
    if !RawArgument::new(json).has_at_most_values(MAX_CONFIG_VALUES) {
        return Err(format!("tracerConfig has more than {MAX_CONFIG_VALUES} values"));
    }
    serde_json::from_str(json).map_err(|error| shown_json_problem(&error))
}

/// The error of a text that is not an options object.
fn invalid(problem: &dyn std::fmt::Display) -> Failure {
    Failure::invalid_params(format!("invalid trace options: {}", shown_json_problem(problem)))
}

#[cfg(test)]
mod tests {
    use tenon_api::messages::Tracer;

    use super::*;

    #[test]
    fn words_are_names_and_everything_else_is_a_script() {
        for name in ["noSuchTracer", "muxTracer", "4byteTracers", "safe", "a-b", "$x"] {
            assert!(is_name(name), "{name}");
        }
        for script in ["", "{}", "{", "1", "0x10", "1e30", "null", "undefined", "this", "a.b", "(a)", "f()", " a"] {
            assert!(!is_name(script), "{script}");
        }
    }

    #[test]
    fn an_error_repeats_only_the_beginning_of_a_long_text() {
        let long = "x".repeat(1 << 20);
        let options = [
            format!(r#"{{"tracer":"{long}"}}"#),
            format!(r#"{{"tracer":"callTracer","timeout":"{long}"}}"#),
            format!(r#"{{"tracer":"callTracer","timeout":"1{long}"}}"#),
            format!(r#"{{"tracer":"muxTracer","tracerConfig":{{"{long}":{{}}}}}}"#),
            format!(r#"{{"tracer":"muxTracer","tracerConfig":{{"callTracer":"{long}"}}}}"#),
            format!(r#"{{"disableStack":"{long}"}}"#),
        ];

        for profile in [Profile::Ethereum, Profile::Native] {
            for options in &options {
                let text = match trace_options(options, profile) {
                    Err(refused) => refused.message,
                    Ok(TraceOptions { tracer: Tracer::Unusable { reason }, .. }) => reason,
                    Ok(other) => panic!("{other:?}"),
                };
                assert!(text.len() < 400 && !text.contains(&"x".repeat(201)), "{text}");
            }
        }
    }

    #[test]
    fn no_options_are_those_of_the_struct_logger() {
        for profile in [Profile::Ethereum, Profile::Native] {
            for json in ["null", "{}"] {
                assert_eq!(trace_options(json, profile), Ok(TraceOptions::default()), "{json}");
            }
        }
    }
}
