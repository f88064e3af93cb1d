//! Why a request about fees failed.

use tenon_api::{BusError, RequestError, StoreError, UnresolvedBlock};
use tenon_chain::ResolveError;

use super::history::MAX_PERCENTILES;

/// Why a request about fees failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FeeError {
    /// The newest block of a history cannot be resolved.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The newest block of a history is above the head.
    #[error("block {requested} is above the head, {head}")]
    BeyondHead {
        /// Height of the requested block.
        requested: u64,
        /// Height of the head.
        head: u64,
    },
    /// A history has too many percentiles, or they do not ascend from 0 to 100. Plugins check this too, and have texts
    /// that clients know.
    #[error("a history has at most {MAX_PERCENTILES} percentiles, ascending from 0 to 100")]
    InvalidPercentiles,
    /// The caller has disconnected, or the deadline of the request has passed.
    #[error("request timed out")]
    CallerGone,
    /// The tips of a block could not be read.
    #[error("the fees of these blocks could not be read")]
    UnreadTips,
    /// The database failed, or has no such block.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<FeeError> for BusError {
    fn from(error: FeeError) -> Self {
        match error {
            FeeError::Resolve(error) => error.into(),
            FeeError::Store(error) => error.into(),
            FeeError::BeyondHead { requested, head } => {
                RequestError::from(UnresolvedBlock::BeyondHead { requested, head }).into()
            }
            FeeError::CallerGone => Self::TimedOut,
            error => Self::failed(error),
        }
    }
}
