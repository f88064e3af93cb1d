//! Profiles of the node's process: `docs/spec/rpc-node.md` 4.5. The node writes them, only into the folders of its
//! setting `rpc.files`.

use tenon_sdk::prelude::*;

use crate::{DebugContext, state::Integer};

/// `debug_startCPUProfile`.
pub(crate) async fn start_cpu(context: DebugContext, file: String) -> Result<(), Failure> {
    record(&context, ProfileStep::StartCpu { file }).await
}

/// `debug_stopCPUProfile`.
pub(crate) async fn stop_cpu(context: DebugContext) -> Result<(), Failure> {
    record(&context, ProfileStep::StopCpu).await
}

/// `debug_cpuProfile`.
pub(crate) async fn cpu(context: DebugContext, file: String, seconds: Number) -> Result<(), Failure> {
    record(&context, ProfileStep::Cpu { file, seconds: seconds.0 }).await
}

/// `debug_writeMemProfile`.
pub(crate) async fn write_heap(context: DebugContext, file: String) -> Result<(), Failure> {
    record(&context, ProfileStep::WriteHeap { file }).await
}

/// `debug_setBlockProfileRate`: nanoseconds of waiting per sample, as in the reference.
pub(crate) async fn set_blocking_rate(context: DebugContext, rate: Integer) -> Result<(), Failure> {
    record(&context, ProfileStep::SetBlockingRate { nanoseconds: rate.0 }).await
}

/// `debug_writeBlockProfile`.
pub(crate) async fn write_blocking(context: DebugContext, file: String) -> Result<(), Failure> {
    record(&context, ProfileStep::WriteBlocking { file }).await
}

/// `debug_blockProfile`.
pub(crate) async fn blocking(context: DebugContext, file: String, seconds: Number) -> Result<(), Failure> {
    record(&context, ProfileStep::Blocking { file, seconds: seconds.0 }).await
}

/// `debug_setMutexProfileFraction`.
pub(crate) async fn set_lock_fraction(context: DebugContext, rate: Integer) -> Result<(), Failure> {
    record(&context, ProfileStep::SetLockFraction { fraction: rate.0 }).await
}

/// `debug_writeMutexProfile`.
pub(crate) async fn write_locks(context: DebugContext, file: String) -> Result<(), Failure> {
    record(&context, ProfileStep::WriteLocks { file }).await
}

/// `debug_mutexProfile`.
pub(crate) async fn locks(context: DebugContext, file: String, seconds: Number) -> Result<(), Failure> {
    record(&context, ProfileStep::Locks { file, seconds: seconds.0 }).await
}

/// `debug_startGoTrace`.
pub(crate) async fn start_spans(context: DebugContext, file: String) -> Result<(), Failure> {
    record(&context, ProfileStep::StartSpans { file }).await
}

/// `debug_stopGoTrace`.
pub(crate) async fn stop_spans(context: DebugContext) -> Result<(), Failure> {
    record(&context, ProfileStep::StopSpans).await
}

/// `debug_goTrace`.
pub(crate) async fn spans(context: DebugContext, file: String, seconds: Number) -> Result<(), Failure> {
    record(&context, ProfileStep::Spans { file, seconds: seconds.0 }).await
}

async fn record(context: &DebugContext, step: ProfileStep) -> Result<(), Failure> {
    context.call(RecordProfile { step }).await
}
