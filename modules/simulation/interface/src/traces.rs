//! Differences between the traces of families of chains.

use alloy_primitives::Address;
use tenon_api::{Transaction, messages::TracerDialect};

/// How the traces of a family differ from Ethereum's. The provided methods are Ethereum's.
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
