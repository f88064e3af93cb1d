//! Input of the execution: proofs for the native contracts, options of traces, orders of the historic exchange.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use tenon_api::messages::Profile;

/// The first byte selects the contract, the rest is its input.
pub(crate) fn proofs(input: &[u8]) {
    let Some((contract, proof)) = input.split_first() else { return };
    let is_ring = contract & 1 == 0;
    if tenon_native_execution::fuzzing::native_proof(is_ring, proof) {
        let mut cut = proof.to_vec();
        cut.pop();
        assert!(!tenon_native_execution::fuzzing::native_proof(is_ring, &cut), "a truncated proof is refused");
    }
}

/// The options object of a trace, parsed for both profiles.
pub(crate) fn trace_options(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for profile in [Profile::Ethereum, Profile::Native] {
        let read = tenon_sdk::shapes::trace_options(text, profile);
        assert!(read.as_ref().err().is_none_or(|failure| !failure.message.is_empty()));
        if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
            assert!(read.is_err(), "what is no JSON is no options object");
        }
    }
}

/// A tracer written in JavaScript, over a run of one step. The engine's own heap has its own limit.
pub(crate) fn script(input: &[u8]) {
    tenon_simulation::fuzzing::script(input);
}

/// Batches of orders, orders, and records. A decoded batch decodes again in the form written by miners.
pub(crate) fn exchange_orders(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else { return };
    match kind % 5 {
        0 => {
            let Some(orders) = tenon_native_exchange::fuzzing::orders_in(rest) else { return };
            if !orders.is_empty() {
                let written = batch_of(&orders);
                assert_eq!(tenon_native_exchange::fuzzing::orders_in(&written).as_ref(), Some(&orders));
            }
            orders.iter().for_each(|rlp| order(rlp));
        }
        1 => order(rest),
        kind => {
            let Some(written) = tenon_native_exchange::fuzzing::kept(kind - 2, rest) else { return };
            assert_eq!(tenon_native_exchange::fuzzing::kept(kind - 2, &written).as_ref(), Some(&written));
        }
    }
}

/// An order has one encoding, except for numbers that no order may have.
fn order(rlp: &[u8]) {
    if let Some(written) = tenon_native_exchange::fuzzing::order(rlp) {
        assert!(written == rlp || rlp.len() > 470, "an order has one encoding");
        assert_eq!(tenon_native_exchange::fuzzing::order(&written).as_ref(), Some(&written));
    }
}

/// A batch in the form written by miners.
pub(crate) fn batch_of(orders: &[tenon_api::Bytes]) -> Vec<u8> {
    let items = orders.iter().map(|order| serde_json::json!({ "Order": STANDARD.encode(order) })).collect::<Vec<_>>();
    let hash = alloy_primitives::B256::ZERO;
    serde_json::json!({ "Data": items, "Timestamp": 1, "TxHash": hash }).to_string().into_bytes()
}

/// A market of the historic exchange.
pub(crate) fn exchange_market(input: &[u8]) {
    tenon_native_exchange::fuzzing::market(input);
}
