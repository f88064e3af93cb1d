//! Tracers as the reference client has them: what native chains answer (`docs/spec/rpc-node.md` 4.2).
//!
//! The reference tells its tracers of frames and instructions in an order of its own, with gas prices, error texts
//! and refusals that the EVM below does not give by itself. [`Watch`] turns what the EVM reports into those events;
//! each file beside it is one tracer, or a family of them, that only hears events. What must always hold: watching
//! changes nothing, neither the state nor what is warm.

mod accounts;
mod calls;
mod calls_legacy;
mod contracts;
mod disassembly;
mod failed_step;
mod gas_constants;
mod histograms;
mod options;
mod prestate;
mod selectors;
mod struct_logger;
mod tracer;
mod watch;

pub(super) use options::ReferenceOptions;
pub(super) use tracer::TracerFailure;
pub(super) use watch::{RunGas, Watch};
