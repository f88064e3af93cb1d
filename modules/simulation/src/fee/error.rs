//! Why a request about fees failed.

use tenon_api::{BusError, StoreError};
use tenon_chain::ResolveError;

use super::history::MAX_PERCENTILES;

/// Why a request about fees failed. The texts about percentiles and the head are the reference's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FeeError {
    /// The newest block of a history cannot be resolved.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The newest block of a history is above the head.
    #[error("request beyond head block: requested {requested}, head {head}")]
    BeyondHead {
        /// Height of the requested block.
        requested: u64,
        /// Height of the head.
        head: u64,
    },
    /// A history has too many percentiles.
    #[error("invalid reward percentile: over the query limit {MAX_PERCENTILES}")]
    TooManyPercentiles,
    /// A percentile is not between 0 and 100.
    #[error("invalid reward percentile: {percentile:.6}")]
    PercentileOutOfRange {
        /// The percentile.
        percentile: f64,
    },
    /// A percentile is not above the one before it.
    #[error("invalid reward percentile: #{}:{previous:.6} >= #{index}:{percentile:.6}", .index - 1)]
    PercentileNotAscending {
        /// Its index.
        index: usize,
        /// The percentile.
        percentile: f64,
        /// The one before it.
        previous: f64,
    },
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
            FeeError::CallerGone => Self::TimedOut,
            error => Self::failed(error),
        }
    }
}
