//! Why a call has no result.

use tenon_api::{
    BusError, ConsensusError, StoreError,
    messages::{CallContradiction, CallFailure},
};
use tenon_bus::OutOfMemory;
use tenon_chain::{ResolveError, StateUnavailable};
use tenon_execution_interface::ExecutionError;

use crate::error_texts::HaltCause;

/// Why a call, an estimate or an access list has no result.
#[derive(Debug, derive_more::From, thiserror::Error)]
pub enum CallError {
    /// The call itself has failed. Plugins write the text for clients.
    #[error("the call itself failed")]
    #[from(CallFailure, CallContradiction, HaltCause)]
    Failed(CallFailure),
    /// The request's block id cannot be resolved to a block.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The database does not have the state after the block.
    #[error(transparent)]
    StateUnavailable(#[from] StateUnavailable),
    /// The block cannot be executed: its rules or its author are not known, or one of its steps failed.
    #[error(transparent)]
    #[from(ExecutionError)]
    Block(Box<ExecutionError>),
    /// The caller has disconnected, or the deadline of the request has passed.
    #[error("request timed out")]
    CallerGone,
    /// The access list still changed in the last run.
    #[error("the access list still changed after {runs} runs")]
    UnsettledList {
        /// Maximum number of runs.
        runs: usize,
    },
    /// The client's share of memory is used up.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The database failed, or the client's memory has no room for what was read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another error of the EVM.
    #[error("{0}")]
    Evm(String),
}

impl CallError {
    /// The answer of a call on the bus: the failure of the call itself is a reply. There is no other conversion into a
    /// [`BusError`], which would send its text for logs to clients.
    ///
    /// # Errors
    /// If the node could not run the call.
    pub fn reply<T>(outcome: Result<T, Self>) -> Result<Result<T, CallFailure>, BusError> {
        outcome.map(Ok).or_else(|error| match error {
            Self::Failed(failure) => Ok(Err(failure)),
            Self::Resolve(error) => Err(error.into()),
            Self::StateUnavailable(error) => Err(error.into()),
            Self::Block(error) => Err((*error).into()),
            Self::OutOfMemory(error) => Err(error.into()),
            Self::Store(error) => Err(error.into()),
            Self::CallerGone => Err(BusError::TimedOut),
            Self::UnsettledList { .. } => Err(BusError::limit_reached(error)),
            Self::Evm(_) => Err(BusError::failed(error)),
        })
    }
}

impl From<ConsensusError> for CallError {
    fn from(error: ConsensusError) -> Self {
        ExecutionError::from(error).into()
    }
}

impl From<HaltCause> for CallFailure {
    fn from(cause: HaltCause) -> Self {
        match cause {
            HaltCause::OutOfGas => Self::OutOfGas,
            HaltCause::Other(text) => Self::Halted(text),
        }
    }
}

/// Why a call that may be an attempt has no result.
#[derive(Debug, derive_more::From)]
pub enum CallEnd {
    /// It failed, with this error for the caller.
    #[from]
    Failed(CallError),
    /// It was only an attempt, and did not end in time.
    GaveUp,
}

/// For calls that are not attempts.
impl From<CallEnd> for CallError {
    fn from(end: CallEnd) -> Self {
        match end {
            CallEnd::Failed(error) => error,
            CallEnd::GaveUp => Self::CallerGone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_the_call_is_a_reply() {
        let cases = [
            (CallError::from(HaltCause::OutOfGas), CallFailure::OutOfGas),
            (HaltCause::Other("invalid opcode".into()).into(), CallFailure::Halted("invalid opcode".into())),
            (CallContradiction::NoBlobs.into(), CallFailure::Contradiction(CallContradiction::NoBlobs)),
            (CallFailure::AllowanceExceeded { allowance: 7 }.into(), CallFailure::AllowanceExceeded { allowance: 7 }),
        ];
        for (error, failure) in cases {
            assert_eq!(CallError::reply::<()>(Err(error)), Ok(Err(failure)));
        }
    }

    #[test]
    fn limits_are_told_apart_from_other_errors() {
        assert_eq!(CallError::reply::<()>(Err(CallError::CallerGone)), Err(BusError::TimedOut));
        let limits = [
            CallError::UnsettledList { runs: 2 },
            CallError::OutOfMemory(OutOfMemory::Node { asked: 1 }),
            CallError::Store(StoreError::OutOfMemory { reason: "full".to_owned() }),
        ];
        for error in limits {
            let text = error.to_string();
            assert_eq!(CallError::reply::<()>(Err(error)), Err(BusError::limit_reached(text)));
        }
        let failed = CallError::Evm("no".to_owned());
        let text = failed.to_string();
        assert_eq!(CallError::reply::<()>(Err(failed)), Err(BusError::failed(text)));
    }
}
