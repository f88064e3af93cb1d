//! The reference client's tracers, for native chains (`docs/spec/rpc-node.md` 4.2).
//!
//! It owns how the reference traces a transaction, a block and a call (`replay`), and its tracers: each other file is
//! one tracer, or a group of similar ones, that only receives events. `tenon-traces` has what the traces of all
//! families share. `tenon-simulation` answers the requests; `core/node` passes it the result of [`tracers_of`].
//!
//! Invariant: tracing changes neither the state nor the set of warm addresses and slots.

#![forbid(unsafe_code)]

mod calls;
mod calls_legacy;
mod contracts;
mod disassembly;
mod histograms;
mod options;
mod prestate;
mod replay;
mod selectors;
mod struct_logger;

use std::sync::Arc;

use tenon_api::messages::{TraceOptions, TracerDialect};
use tenon_chain::ChainSpec;
use tenon_native_spec::NativeSettings;
use tenon_traces::{Replay, TraceError, TraceFamily, Tracing};

use replay::ReferenceTracing;

/// The tracers of a native chain; `None` for a chain of another family.
pub fn tracers_of(spec: &ChainSpec) -> Option<Arc<dyn TraceFamily>> {
    NativeSettings::of(spec).map(|_| Arc::new(NativeTracers) as _)
}

/// The tracers of native chains.
struct NativeTracers;

impl TraceFamily for NativeTracers {
    fn dialect(&self) -> TracerDialect {
        TracerDialect::Reference
    }

    fn tracing<'a>(&self, replay: Replay<'a>, options: &'a TraceOptions) -> Result<Box<dyn Tracing + 'a>, TraceError> {
        Ok(Box::new(ReferenceTracing::new(replay, options)))
    }
}
