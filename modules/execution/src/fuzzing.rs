//! Private parsers, for the fuzz targets (`fuzz/`) only.

use tenon_api::Bytes;

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

/// The orders in the input of a transaction to the historic exchange; `None` if it has no form written by miners.
pub fn exchange_orders(input: &[u8]) -> Option<Vec<Bytes>> {
    native::exchange_fuzzing::orders_in(input)
}

/// The RLP of an order of the historic exchange decoded from these bytes; `None` if they are not an order.
pub fn exchange_order(bytes: &[u8]) -> Option<Vec<u8>> {
    native::exchange_fuzzing::order(bytes)
}

/// A record of the trading state, decoded from these bytes and encoded again: a book (0), a price level (1), an amount
/// (2).
pub fn exchange_record(kind: u8, bytes: &[u8]) -> Option<Vec<u8>> {
    native::exchange_fuzzing::kept(kind, bytes)
}

/// Runs a market of the historic exchange that these bytes describe.
///
/// # Panics
/// If its trading state is inconsistent after a block, or tokens were created or lost.
pub fn exchange_market(input: &[u8]) {
    native::exchange_fuzzing::market(input);
}
