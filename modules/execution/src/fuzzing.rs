//! The private parsers, as the fuzz targets see them (`fuzz/`). Not for others.

use tenon_api::Bytes;

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

/// The orders in the input of a transaction to the historic exchange; none when it is in no form in which miners wrote it.
pub fn exchange_orders(input: &[u8]) -> Option<Vec<Bytes>> {
    native::exchange_fuzzing::orders_in(input)
}

/// The RLP of an order of the historic exchange that was read from these bytes; none when they are no order.
pub fn exchange_order(bytes: &[u8]) -> Option<Vec<u8>> {
    native::exchange_fuzzing::order(bytes)
}

/// What the trading state keeps, read from these bytes and written again: the record of a book (0), a price level (1), an
/// amount (2).
pub fn exchange_record(kind: u8, bytes: &[u8]) -> Option<Vec<u8>> {
    native::exchange_fuzzing::kept(kind, bytes)
}

/// Runs a market of the historic exchange that these bytes describe.
///
/// # Panics
/// When its trading state is not whole after a block, or tokens were made or lost.
pub fn exchange_market(input: &[u8]) {
    native::exchange_fuzzing::market(input);
}
