//! Events of a run for tracers, and the script tracer.
//!
//! The reference client, like go-ethereum for its scripts, reports frames and instructions to tracers in its own order,
//! with gas prices, error texts and refusals that the EVM does not provide. [`Watch`] converts the EVM's reports into
//! those events; a [`Tracer`] only receives them. Invariant: tracing changes neither the state nor the set of warm
//! addresses and slots.

mod accounts;
mod failed_step;
mod gas_constants;
mod script;
mod tracer;
mod watch;

pub use accounts::Accounts;
pub use failed_step::StepSnapshot;
pub(crate) use script::ScriptRun;
pub use tracer::{FrameEnd, FrameStart, PredictedOutcome, REVERTED, Run, Step, StepEnd, Tracer, TracerFailure};
pub(crate) use watch::RunGas;
pub use watch::Watch;
