//! Errors of the queries.

use tenon_api::{BusError, EpochRefusal, RequestError, StoreError};
use tenon_bus::RegisterError;
use tenon_chain::ResolveError;

use crate::{NativeError, engine::store_error, rewards::RewardError, v1::V1Error, v2::V2Error};

/// Why the handlers could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The chain is not native.
    #[error(transparent)]
    Engine(#[from] NativeError),
    /// One of the messages already has a handler.
    #[error(transparent)]
    Register(#[from] RegisterError),
}

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum QueryError {
    /// The epoch has no answer.
    #[error(transparent)]
    Epoch(#[from] EpochRefusal),
    /// The chain has not paid rewards for two epochs yet, so the return of staking cannot be estimated.
    #[error("the staking yield is available after two epochs with rewards")]
    NoStakingReturn,
    /// The caller has disconnected, or the deadline of the request has passed.
    #[error("request timed out")]
    CallerGone,
    /// The request's block id cannot be resolved to a block.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The database failed, or no longer has what the query needs.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Engine v1 could not read or compute something about a block.
    #[error(transparent)]
    V1(#[from] V1Error),
    /// Engine v2 could not read or compute something about a block.
    #[error(transparent)]
    V2(#[from] V2Error),
    /// The rewards of a block could not be computed.
    #[error(transparent)]
    Rewards(#[from] NativeError),
}

impl From<QueryError> for BusError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::CallerGone => Self::TimedOut,
            QueryError::Resolve(error) => error.into(),
            QueryError::Store(error) => error.into(),
            error => match (error.refusal(), store_error(&error)) {
                (Some(refusal), _) => RequestError::from(refusal).into(),
                (None, Some(error)) => error.clone().into(),
                (None, None) => Self::failed(error),
            },
        }
    }
}

impl QueryError {
    /// The refusal, if the epoch has no answer. A query has the other errors of the engines only if the database lacks
    /// a state or is damaged.
    const fn refusal(&self) -> Option<EpochRefusal> {
        match self {
            Self::Epoch(refusal) => Some(*refusal),
            Self::V1(V1Error::NoCandidates) => Some(EpochRefusal::NoCandidates),
            Self::V2(error)
            | Self::Rewards(NativeError::V2(error) | NativeError::Reward(RewardError::Epoch(error))) => {
                refusal_of_v2(error)
            }
            Self::Rewards(NativeError::Reward(RewardError::MissingHeader { number, hash })) => {
                Some(EpochRefusal::MissingRewardedBlock { number: *number, hash: *hash })
            }
            _ => None,
        }
    }
}

const fn refusal_of_v2(error: &V2Error) -> Option<EpochRefusal> {
    match error {
        V2Error::V1Block => Some(EpochRefusal::BlockOfEngineV1),
        V2Error::MissingBlock { number, hash } => Some(EpochRefusal::MissingBlock { number: *number, hash: *hash }),
        V2Error::NoGapBlock(number) => Some(EpochRefusal::NoGapBlock(*number)),
        V2Error::NoSwitchBlock(number) => Some(EpochRefusal::NoSwitchBlock(*number)),
        V2Error::NoCandidates => Some(EpochRefusal::NoCandidates),
        _ => None,
    }
}
