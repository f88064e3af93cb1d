//! The private parsers, as the fuzz targets see them (`fuzz/`). Not for others.

use crate::{ExecutionLimits, native, trace};

/// Runs the native contract that verifies ring signatures (`is_ring`), or the one that verifies range proofs, on an
/// input; whether it accepts. Checks that the reason of a refusal can be told.
pub fn native_proof(is_ring: bool, input: &[u8]) -> bool {
    native::proof_is_valid(is_ring, input)
}

/// Reads the JSON text of a trace's options as each profile does; the reasons of refusals, in words.
pub fn trace_options(json: &str) -> Vec<String> {
    trace::options_problems(json, &ExecutionLimits::default())
}
