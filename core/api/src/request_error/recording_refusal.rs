//! Why a recording for a profile is not started or stopped.

/// Why a recording for a profile is not started or stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordingRefusal {
    /// A recording of this kind is already running.
    #[error("{0} is already being recorded")]
    Running(RecordingKind),
    /// No recording of this kind is running, or not the one to end.
    #[error("{0} is not being recorded")]
    NotRunning(RecordingKind),
}

/// Kinds of recordings that are started and stopped. One of a kind runs at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum RecordingKind {
    /// Samples of the processor's use.
    #[display("the processor's use")]
    Cpu,
    /// Spans.
    #[display("the list of spans")]
    Spans,
}
