//! What a family decides about traces.

use alloy_primitives::Address;
use tenon_api::Transaction;

/// Whose tracers a chain has, with their options, results, errors and the way in which a block is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracerDialect {
    /// go-ethereum's.
    Ethereum,
    /// Those of the reference client (`docs/spec/rpc-node.md` 4.2).
    Reference,
}

/// What a family decides about traces. The provided methods are Ethereum's.
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
