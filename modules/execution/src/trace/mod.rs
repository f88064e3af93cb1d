//! Watching transactions run (`debug_trace*`; `spec/rpc-node.md` 4.2).

mod inspector;
mod options;
mod recording;
mod replay;
mod struct_log;

pub(crate) use recording::RecordingMemory;

use inspector::TraceInspector;
use options::TraceOptions;
