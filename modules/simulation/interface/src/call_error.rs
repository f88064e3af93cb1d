//! Why a call has no result.

use std::{borrow::Cow, time::Duration};

use alloy_primitives::{Address, B256, Bytes};
use tenon_api::{BusError, ConsensusError, RequestError, StoreError, duration_text};
use tenon_bus::OutOfMemory;
use tenon_chain::{ResolveError, StateUnavailable};
use tenon_execution_interface::ExecutionError;

use crate::{
    MemberError,
    error_texts::{HaltCause, revert_text},
};

/// Why a call, an estimate or an access list has no result. The texts are those of go-ethereum and the reference
/// (`docs/spec/rpc-eth.md` 10.1).
#[derive(Debug, derive_more::From, thiserror::Error)]
pub enum CallError {
    /// The request's block id cannot be resolved to a block.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The database does not have the state after the block.
    #[error(transparent)]
    StateUnavailable(#[from] StateUnavailable),
    /// The call object or its overrides are contradictory or invalid.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// The block cannot be executed: its rules or its author are not known, or one of its steps failed.
    #[error(transparent)]
    #[from(ExecutionError)]
    Block(Box<ExecutionError>),
    /// The time limit of calls has passed.
    #[error("execution aborted (timeout = {})", duration_text(*.timeout))]
    TimeLimitReached {
        /// The limit.
        timeout: Duration,
    },
    /// The caller has disconnected, or the deadline of the request has passed.
    #[error("request timed out")]
    CallerGone,
    /// The message is not valid.
    #[error("err: {reason} (supplied gas {gas_limit})")]
    InvalidMessage {
        /// The broken rule.
        reason: String,
        /// The message's gas limit.
        gas_limit: u64,
    },
    /// The message is not valid. The text is the reference's for `eth_createAccessList`.
    #[error("failed to apply transaction: {hash} err: {reason}")]
    InvalidListMessage {
        /// The hash of the corresponding unsigned transaction.
        hash: B256,
        /// The broken rule.
        reason: String,
    },
    /// The call reverted.
    #[error("{}", revert_text(.output))]
    Reverted {
        /// Its output.
        output: Bytes,
    },
    /// The call reverted without output, on a chain whose clients then receive no data.
    #[error("execution reverted")]
    RevertedWithoutOutput,
    /// The call ran out of gas.
    #[error("out of gas")]
    OutOfGas,
    /// The EVM halted for another reason.
    #[error("{0}")]
    Halted(Cow<'static, str>),
    /// The call runs out of gas even with the maximum gas limit.
    #[error("gas required exceeds allowance ({allowance})")]
    AllowanceExceeded {
        /// The maximum.
        allowance: u64,
    },
    /// The sender cannot pay the value.
    #[error("insufficient funds for transfer: address {sender}")]
    ValueNotCovered {
        /// The sender.
        sender: Address,
    },
    /// The sender can pay the value, but not the blobs.
    #[error("insufficient funds for gas * price + value: address {sender}")]
    BlobsNotCovered {
        /// The sender.
        sender: Address,
    },
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

impl From<ConsensusError> for CallError {
    fn from(error: ConsensusError) -> Self {
        ExecutionError::from(error).into()
    }
}

impl From<HaltCause> for CallError {
    fn from(cause: HaltCause) -> Self {
        match cause {
            HaltCause::OutOfGas => Self::OutOfGas,
            HaltCause::Other(text) => Self::Halted(text),
        }
    }
}

impl From<CallError> for BusError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Resolve(error) => error.into(),
            CallError::Block(error) => (*error).into(),
            CallError::OutOfMemory(error) => error.into(),
            CallError::Store(error) => error.into(),
            CallError::CallerGone => Self::TimedOut,
            CallError::UnsettledList { .. } => Self::limit_reached(error),
            CallError::Reverted { output } => RequestError::Reverted { message: revert_text(&output), output }.into(),
            CallError::StateUnavailable(_)
            | CallError::Member(_)
            | CallError::TimeLimitReached { .. }
            | CallError::InvalidMessage { .. }
            | CallError::InvalidListMessage { .. }
            | CallError::RevertedWithoutOutput
            | CallError::OutOfGas
            | CallError::Halted(_)
            | CallError::AllowanceExceeded { .. }
            | CallError::ValueNotCovered { .. }
            | CallError::BlobsNotCovered { .. }
            | CallError::Evm(_) => Self::failed(error),
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
    fn a_revert_keeps_its_output_for_the_client() {
        let output = Bytes::from_static(&[1, 2]);

        let reverted = BusError::from(CallError::Reverted { output: output.clone() });
        let silent = BusError::from(CallError::RevertedWithoutOutput);

        let message = "execution reverted".to_owned();
        assert_eq!(reverted, RequestError::Reverted { message: message.clone(), output }.into());
        assert_eq!(silent, RequestError::Failed(message).into());
    }

    #[test]
    fn limits_are_told_apart_from_other_errors() {
        assert_eq!(BusError::from(CallError::CallerGone), BusError::TimedOut);
        let limits = [
            CallError::UnsettledList { runs: 2 },
            CallError::OutOfMemory(OutOfMemory::Node { asked: 1 }),
            CallError::Store(StoreError::OutOfMemory { reason: "full".to_owned() }),
        ];
        for error in limits {
            let text = error.to_string();
            assert_eq!(BusError::from(error), BusError::limit_reached(text));
        }
        let failed = [
            (CallError::from(HaltCause::OutOfGas), "out of gas"),
            (HaltCause::Other("invalid opcode".into()).into(), "invalid opcode"),
            (CallError::TimeLimitReached { timeout: Duration::from_secs(5) }, "execution aborted (timeout = 5s)"),
            (CallError::AllowanceExceeded { allowance: 7 }, "gas required exceeds allowance (7)"),
            (
                CallError::InvalidMessage { reason: "nonce too low".to_owned(), gas_limit: 9 },
                "err: nonce too low (supplied gas 9)",
            ),
        ];
        for (error, text) in failed {
            assert_eq!(BusError::from(error), BusError::failed(text));
        }
    }
}
