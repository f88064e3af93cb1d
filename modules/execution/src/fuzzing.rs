//! Private parsers, for the fuzz targets (`fuzz/`) only.

use crate::{ExecutionLimits, native, trace};

/// Runs the native contract that verifies ring signatures (`is_ring`), or the one that verifies range proofs; returns
/// whether it accepts the input. Checks that every refusal has a reason.
pub fn native_proof(is_ring: bool, input: &[u8]) -> bool {
    native::proof_is_valid(is_ring, input)
}

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
