//! Converts the result of a call for the caller.

use alloy_primitives::Bytes;
use revm::{
    context::{
        TxEnv,
        result::{ExecutionResult, HaltReason},
    },
    primitives::TxKind,
};
use tenon_execution_interface::BlockEvm;
use tenon_simulation_interface::{CallEnvironment, CallError, HaltCause, halt_cause, precompile_failure};

use super::failing_step::{LastStep, needs_step};

/// The output of a finished run.
///
/// # Errors
/// Why it failed.
pub(crate) fn output_of(
    environment: &CallEnvironment,
    result: ExecutionResult,
    message: &TxEnv,
    evm: BlockEvm,
) -> Result<Bytes, CallError> {
    match result {
        ExecutionResult::Success { output, .. } => Ok(output.into_data()),
        ExecutionResult::Revert { output, .. } => Err(environment.call_rules.revert_failure(output).into()),
        ExecutionResult::Halt { reason, .. } => Err(halt_cause_of(environment, &reason, message, evm).into()),
    }
}

/// Why a message's outermost frame halted. If the text names the instruction or the stack, the message runs again
/// with an inspector: such failures are rare, and an inspector costs a call per step.
pub(crate) fn halt_cause_of<I>(
    environment: &CallEnvironment,
    reason: &HaltReason,
    message: &TxEnv,
    evm: BlockEvm<I>,
) -> HaltCause {
    if let (HaltReason::PrecompileError | HaltReason::PrecompileErrorWithContext(_), TxKind::Call(contract)) =
        (reason, message.kind)
    {
        // Only a message directly to the contract ends like this: inside another contract only the inner call
        // fails.
        let cause = precompile_failure(environment.rules.precompiles.extras, contract, &message.data);
        return cause.unwrap_or_else(|| halt_cause(reason));
    }
    if !needs_step(reason, message) {
        return halt_cause(reason);
    }
    let interrupt = evm.ctx.chain.clone();
    let mut evm = environment.evm(evm.ctx.journaled_state.database, interrupt, LastStep::default());
    let again = environment.inspect(&mut evm, message.clone()).is_ok();
    let cause = evm.inspector.halt_cause(reason).filter(|_| again);
    cause.unwrap_or_else(|| halt_cause(reason))
}

/// Returns whether the message must run again to find out why it failed.
pub(crate) fn needs_second_run(result: &ExecutionResult, message: &TxEnv) -> bool {
    matches!(result, ExecutionResult::Halt { reason, .. } if needs_step(reason, message))
}
