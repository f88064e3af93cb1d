//! Runs a call and converts its result for the caller.

use std::time::Duration;

use alloy_primitives::Bytes;
use revm::{
    Inspector,
    context::{
        TxEnv,
        result::{ExecutionResult, HaltReason},
    },
    interpreter::interpreter::EthInterpreter,
    primitives::TxKind,
};
use tenon_execution_interface::{AnyEvm, BlockContext, BlockEvm, Stopped};
use tenon_simulation_interface::{CallError, HaltCause, RunFailure, halt_cause, invalid_transaction_text};

use super::{
    CallEnvironment,
    failing_step::{LastStep, needs_step},
    precompile_failure,
};

impl CallEnvironment {
    /// Converts the failure of a run for the caller of `eth_call`.
    pub(crate) fn error_of(&self, failure: RunFailure, gas_limit: u64, timeout: Duration) -> CallError {
        match failure {
            RunFailure::Stopped(Stopped::TimedOut) => CallError::TimeLimitReached { timeout },
            RunFailure::Stopped(Stopped::CallerGone) => CallError::CallerGone,
            RunFailure::Message(invalid) => {
                let reason = invalid_transaction_text(&invalid, &self.transaction, &self.block);
                CallError::InvalidMessage { reason, gas_limit }
            }
            RunFailure::Refused(reason) => CallError::InvalidMessage { reason, gas_limit },
            RunFailure::OutOfMemory(refused) => refused.into(),
            RunFailure::Store(error) => error.into(),
            RunFailure::Other(text) => CallError::Evm(text),
        }
    }

    /// Runs a message and discards its changes.
    ///
    /// # Errors
    /// Why it may not run, or why the run was stopped.
    pub(crate) fn run(&self, evm: &mut BlockEvm, message: TxEnv) -> Result<ExecutionResult, RunFailure> {
        self.call_rules.run(&mut AnyEvm::plain(evm), message)
    }

    /// Like [`CallEnvironment::run`], with the EVM's inspector.
    ///
    /// # Errors
    /// Like [`CallEnvironment::run`].
    pub(crate) fn inspect<I: Inspector<BlockContext, EthInterpreter>>(
        &self,
        evm: &mut BlockEvm<I>,
        message: TxEnv,
    ) -> Result<ExecutionResult, RunFailure> {
        AnyEvm::with_inspected(evm, |evm| self.call_rules.run(evm, message))
    }

    /// The output of a finished run.
    ///
    /// # Errors
    /// Why it failed, with the text of `eth_call` and `eth_estimateGas`.
    pub(crate) fn output_of(&self, result: ExecutionResult, message: TxEnv, evm: BlockEvm) -> Result<Bytes, CallError> {
        match result {
            ExecutionResult::Success { output, .. } => Ok(output.into_data()),
            ExecutionResult::Revert { output, .. } => Err(self.call_rules.revert_error(output)),
            ExecutionResult::Halt { reason, .. } => Err(self.halt_cause(&reason, message, evm).into()),
        }
    }

    /// Why a message's outermost frame halted. If the text names the instruction or the stack, the message runs again
    /// with an inspector: such failures are rare, and an inspector costs a call per step.
    pub(crate) fn halt_cause<I>(&self, reason: &HaltReason, message: TxEnv, evm: BlockEvm<I>) -> HaltCause {
        if let (HaltReason::PrecompileError | HaltReason::PrecompileErrorWithContext(_), TxKind::Call(contract)) =
            (reason, message.kind)
        {
            // Only a message directly to the contract ends like this: inside another contract only the inner call
            // fails.
            let cause = precompile_failure(self.rules.precompiles.extras, contract, &message.data);
            return cause.unwrap_or_else(|| halt_cause(reason));
        }
        if !needs_step(reason, &message) {
            return halt_cause(reason);
        }
        let interrupt = evm.ctx.chain.clone();
        let mut evm = self.evm(evm.ctx.journaled_state.database, interrupt, LastStep::default());
        let again = self.inspect(&mut evm, message).is_ok();
        let cause = evm.inspector.halt_cause(reason).filter(|_| again);
        cause.unwrap_or_else(|| halt_cause(reason))
    }
}

/// Returns whether the message must run again to find out why it failed.
pub(crate) fn needs_second_run(result: &ExecutionResult, message: &TxEnv) -> bool {
    matches!(result, ExecutionResult::Halt { reason, .. } if needs_step(reason, message))
}
