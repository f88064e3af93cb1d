//! Errors of the voting.

use tenon_api::{ActorError, BlockProductionError, BlockVerdict, BusError, SignError, StoreError, SubmitError};
use tenon_supervisor::SpawnError;

/// Why the voting was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
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
