//! The reference client's tracers, for native chains (`docs/spec/rpc-node.md` 4.2).
//!
//! The reference reports frames and instructions to its tracers in its own order, with gas prices, error texts and
//! refusals that the EVM does not provide. [`Watch`] converts the EVM's reports into those events; each other file is
//! one tracer, or a family of them, that only receives events. Invariant: tracing changes neither the state nor the set
//! of warm addresses and slots.

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
mod script;
mod selectors;
mod struct_logger;
mod tracer;
mod watch;

pub(crate) use failed_step::StepSnapshot;
pub(super) use options::watch_of;
pub(super) use script::ScriptRun;
pub(super) use tracer::TracerFailure;
pub(super) use watch::{RunGas, Watch};
