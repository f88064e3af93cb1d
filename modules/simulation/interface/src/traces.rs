//! The decisions of a family about traces.

use alloy_primitives::Address;
use tenon_api::{Transaction, messages::TracerDialect};

/// The decisions of a family about traces. The provided methods are Ethereum's.
pub trait TraceFamily {
    /// The tracers of the chain.
    fn tracer_dialect(&self) -> TracerDialect {
        TracerDialect::Ethereum
    }

    /// Returns whether the trace of a block skips this transaction: it has no effects on later ones.
    fn is_skipped_by_traces(&self, _transaction: &Transaction) -> bool {
        false
    }

    /// An address as error texts of traces show it.
    fn address_text(&self, address: Address) -> String {
        address.to_string()
    }
}
