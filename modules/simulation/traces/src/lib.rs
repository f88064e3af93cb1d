//! What the traces of all chain families share, and the interface that a family implements for its tracers.
//!
//! It owns:
//!
//! - the trait [`TraceFamily`] with a family's [`Tracing`] of one request;
//! - the [`Replay`] of blocks up to the traced transaction;
//! - the inspector that limits what a run records ([`TraceInspector`]), and the memory for it ([`RecordingMemory`]);
//! - the events of a run ([`Tracer`]), and tracers written in JavaScript ([`Scripts`]);
//! - the errors of traces ([`TraceError`]). `tenon-simulation` answers the requests and has Ethereum's tracers;
//!   `modules/native/tracers` has those of native chains.
//!
//! Invariants:
//!
//! - tracing writes nothing and changes no result of a block;
//! - every run ends when its time limit has passed or its caller has disconnected;
//! - what a run records is reserved from its client's share.
//!
//! The crate knows no family of chains, no database and no JSON.

#![forbid(unsafe_code)]

mod error;
mod events;
mod family;
mod frame_failures;
mod inspector;
mod recording;
mod replay;
mod script_conventions;
mod script_place;
mod scripts;

pub use error::TraceError;
pub use events::{
    Accounts, FrameEnd, FrameStart, PredictedOutcome, REVERTED, Run, Step, StepEnd, StepSnapshot, Tracer,
    TracerFailure, Watch,
};
pub use family::{TraceFamily, Tracing};
pub use inspector::{ActiveTracer, LibraryTracer, TraceInspector};
pub use recording::{RecordingMemory, TraceMemory, TraceShare, growing_bytes};
pub use replay::{
    Replay, ReplaySource, ReplayedBlock, RunError, check_size, execute_transaction_of_block, timeout_of,
    transaction_and_sender,
};
pub use script_conventions::ScriptConventions;
pub use script_place::ScriptPlace;
pub use scripts::{ScriptSource, Scripts};
pub use tenon_javascript::{ScriptError, ScriptInterface};
