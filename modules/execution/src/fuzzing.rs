//! Private parsers, for the fuzz targets (`fuzz/`) only.

use crate::{ExecutionLimits, trace};

/// Parses the JSON text of a trace's options for each profile; returns the errors.
pub fn trace_options(json: &str) -> Vec<String> {
    trace::options_problems(json, &ExecutionLimits::default())
}

/// Runs any text as a tracer written in JavaScript, for each profile.
///
/// # Panics
/// If its trace has no end.
pub fn script(input: &[u8]) {
    tenon_javascript::fuzzing::script(input);
}
