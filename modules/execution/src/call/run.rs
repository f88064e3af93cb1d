//! One run of a call, and what its end means for the caller.

use std::time::Duration;

use alloy_primitives::Bytes;
use revm::{
    ExecuteEvm,
    context::{
        TxEnv,
        result::{EVMError, ExecutionResult, InvalidTransaction},
    },
};
use tenon_api::{Failure, StoreError};

use super::{CallEnvironment, duration_text, halt_text, invalid_transaction_text, words::revert_failure};
use crate::block::{BlockEvm, EvmFailure, Interrupt, StateError, Stopped};

/// Why a run gave no result.
#[derive(Debug)]
pub(crate) enum RunFailure {
    /// It was stopped.
    Stopped(Stopped),
    /// The message may not run at all.
    Message(InvalidTransaction),
    /// The database failed.
    Store(StoreError),
    /// Anything else that the EVM says.
    Other(String),
}

/// Runs a transaction on the EVM's state and forgets what it changed.
pub(crate) fn run(evm: &mut BlockEvm, transaction: TxEnv) -> Result<ExecutionResult, RunFailure> {
    match evm.transact(transaction) {
        Ok(outcome) => Ok(outcome.result),
        Err(failure) => Err(RunFailure::from_evm(failure, &evm.ctx.chain)),
    }
}

impl RunFailure {
    pub(crate) fn from_evm(failure: EvmFailure, interrupt: &Interrupt) -> Self {
        match failure {
            EVMError::Transaction(invalid) => Self::Message(invalid),
            EVMError::Database(StateError(error)) => Self::Store(error),
            EVMError::Custom(text) if text == Interrupt::MARK => {
                Self::Stopped(interrupt.reason().unwrap_or(Stopped::CallerGone))
            }
            failure => Self::Other(failure.to_string()),
        }
    }

    /// Whether more gas may help: the limit does not even pay for the message's data.
    pub(crate) const fn is_intrinsic_gas(&self) -> bool {
        matches!(
            self,
            Self::Message(
                InvalidTransaction::CallGasCostMoreThanGasLimit { .. }
                    | InvalidTransaction::GasFloorMoreThanGasLimit { .. }
            )
        )
    }

    /// The failure as the caller of `eth_call` sees it.
    pub(crate) fn for_call(self, environment: &CallEnvironment, gas_limit: u64, timeout: Duration) -> Failure {
        match self {
            Self::Stopped(Stopped::TimedOut) => {
                Failure::server(format!("execution aborted (timeout = {})", duration_text(timeout)))
            }
            Self::Stopped(Stopped::CallerGone) => Failure::limit("request timed out"),
            Self::Message(invalid) => {
                let text = invalid_transaction_text(&invalid, &environment.transaction, &environment.block);
                Failure::server(format!("err: {text} (supplied gas {gas_limit})"))
            }
            Self::Store(error) => error.into(),
            Self::Other(text) => Failure::server(text),
        }
    }
}

/// What a finished run returns to its caller: its output, or why it failed.
pub(crate) fn output_or_failure(result: ExecutionResult) -> Result<Bytes, Failure> {
    match result {
        ExecutionResult::Success { output, .. } => Ok(output.into_data()),
        ExecutionResult::Revert { output, .. } => Err(revert_failure(&output)),
        ExecutionResult::Halt { reason, .. } => Err(Failure::server(halt_text(&reason))),
    }
}
