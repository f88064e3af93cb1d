//! Why a profile was not recorded or written.

use std::io;
use std::path::PathBuf;

use tenon_api::{BusError, RecordingRefusal, RequestError};

use super::limits::{MAX_PROFILE, MAX_SECONDS};
use crate::chain_files::RequestFileError;

/// Why a profile was not recorded or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProfileError {
    /// A recording is not started or stopped.
    #[error(transparent)]
    Recording(#[from] RecordingRefusal),
    /// The allocator was started without profiling.
    #[error("heap profiling is not enabled; start the node with MALLOC_CONF=prof:true in its environment")]
    HeapProfilingOff,
    /// A timed step is to last too long.
    #[error("{seconds} seconds: at most {MAX_SECONDS} are allowed")]
    PauseTooLong { seconds: u64 },
    /// The content is longer than a profile may be.
    #[error("the profile is longer than {MAX_PROFILE} bytes")]
    TooLarge,
    /// The processor's use cannot be sampled.
    #[error("CPU profiling: {0}")]
    Sampler(pprof::Error),
    /// The profile cannot be compressed.
    #[error("packing the profile: {0}")]
    Packing(io::Error),
    /// The spans cannot be encoded.
    #[error("writing the trace: {0}")]
    Trace(serde_json::Error),
    /// The allocator does not report its memory.
    #[error("the allocator's profile: {reason}")]
    Allocator { reason: String },
    /// The file cannot be written.
    #[error("{}: {error}", path.display())]
    Write { path: PathBuf, error: io::Error },
    /// The request may not write this file.
    #[error(transparent)]
    File(#[from] RequestFileError),
    /// The work on the profile panicked; the cause is in the log.
    #[error("the profile could not be made")]
    Crashed,
}

impl From<ProfileError> for BusError {
    fn from(error: ProfileError) -> Self {
        match error {
            ProfileError::File(error) => error.into(),
            ProfileError::Recording(refusal) => RequestError::from(refusal).into(),
            ProfileError::PauseTooLong { .. } => Self::invalid_argument(error),
            ProfileError::TooLarge => Self::limit_reached(error),
            error => Self::failed(error),
        }
    }
}
