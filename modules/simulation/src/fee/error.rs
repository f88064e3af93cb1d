//! Why a request about fees failed.

use tenon_api::{
    BusError, RequestError, StoreError, UnresolvedBlock,
    messages::{FeeHistory, PercentileProblem},
};
use tenon_chain::ResolveError;

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
    /// The percentiles are refused. Plugins write the text for clients.
    #[error(transparent)]
    Percentiles(#[from] PercentileProblem),
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

impl FeeError {
    /// The answer on the bus: refused percentiles are a reply.
    ///
    /// # Errors
    /// If the node could not read the fees.
    pub(crate) fn reply(outcome: Result<FeeHistory, Self>) -> Result<Result<FeeHistory, PercentileProblem>, BusError> {
        outcome.map(Ok).or_else(|error| match error {
            Self::Percentiles(problem) => Ok(Err(problem)),
            Self::Resolve(error) => Err(error.into()),
            Self::Store(error) => Err(error.into()),
            Self::BeyondHead { requested, head } => {
                Err(RequestError::from(UnresolvedBlock::BeyondHead { requested, head }).into())
            }
            Self::CallerGone => Err(BusError::TimedOut),
            Self::UnreadTips => Err(BusError::failed(error)),
        })
    }
}
