//! Errors of the voting.

use tenon_api::{ActorError, B256, BlockProductionError, BlockVerdict, BusError, SignError, StoreError, SubmitError};
use tenon_native_consensus::v2::V2Error;
use tenon_supervisor::SpawnError;

/// Why the voting was not started.
#[derive(Debug, thiserror::Error)]
pub enum VotingStartError {
    /// The actor could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// It was started before.
    #[error("the voting is already running")]
    AlreadyRunning,
}

/// Why the voting did not answer a request.
#[derive(Debug, thiserror::Error)]
pub enum VotingRequestError {
    /// The actor did not accept the request.
    #[error(transparent)]
    Actor(#[from] ActorError),
    /// The actor failed before it answered; it is restarted.
    #[error("the voting has failed; try again")]
    Lost,
}

impl From<VotingRequestError> for BusError {
    fn from(error: VotingRequestError) -> Self {
        match error {
            VotingRequestError::Actor(error) => error.into(),
            VotingRequestError::Lost => Self::failed(error),
        }
    }
}

/// Why a replica refuses a message or a block, or did not send its own message. The texts are the reference's
/// (`docs/spec/consensus.md` 14.1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaError {
    /// Engine v2 rejects the message or the block.
    #[error(transparent)]
    Engine(#[from] V2Error),
    /// This node's account cannot sign.
    #[error(transparent)]
    Signer(#[from] SignError),
    /// The vote is for neither the current round nor the next.
    #[error("vote message round number: {found} is too far away from currentRound: {current}")]
    VoteRound {
        /// The vote's round.
        found: u64,
        /// This node's round.
        current: u64,
    },
    /// The vote's block is not known yet. It stays in the pool.
    #[error("vote proposed block is not found hash: {hash:#x}, block number: {number}, error: {error}")]
    VoteBlock {
        /// The block.
        hash: B256,
        /// Its height.
        number: u64,
        /// Why its epoch cannot be determined.
        #[source]
        error: Box<V2Error>,
    },
    /// The timeout is for another round.
    #[error("timeout message round number: {found} does not match currentRound: {current}")]
    TimeoutRound {
        /// The timeout's round.
        found: u64,
        /// This node's round.
        current: u64,
    },
    /// More messages of one kind are in the pool than any network produces.
    #[error("message pool is full")]
    PoolFull,
}

/// Why a block of this node is not on the chain.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProposalError {
    /// It could not be built.
    #[error(transparent)]
    NotBuilt(#[from] BlockProductionError),
    /// This node itself refuses it.
    #[error("this node refuses its own block: {0:?}")]
    Refused(BlockVerdict),
}

/// Why a signing transaction that is due was not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SigningTransactionError {
    /// The next nonce of the masternode's account cannot be read.
    #[error(transparent)]
    Nonce(#[from] StoreError),
    /// The masternode cannot sign.
    #[error(transparent)]
    Signer(#[from] SignError),
    /// The pool did not take it.
    #[error(transparent)]
    Pool(#[from] SubmitError),
}
