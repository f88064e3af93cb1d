//! Traces transactions (`debug_trace*`; `docs/spec/rpc-node.md` 4.2).
//!
//! The chain's family says whose tracers it has: go-ethereum's (`ethereum_replay`), or those of the reference client
//! (`reference_replay`, `reference`). Both replay blocks in one way (`replay`) and run under one inspector that limits what
//! they record.

mod dialects;
mod error;
mod ethereum_replay;
mod ethereum_results;
mod frame_failures;
mod inspector;
mod options;
mod recording;
mod reexecution;
mod reference;
mod reference_replay;
mod replay;
mod replay_texts;
mod script_conventions;
mod scripts;
mod storage_range;
mod struct_log;
mod witness;

pub(crate) use recording::{RecordingMemory, TraceShare};
pub(crate) use reference::StepSnapshot;

use error::TraceError;
use inspector::TraceInspector;
use options::EthereumOptions;
