//! Instructions that native chains add or change (`docs/spec/chain.md` 5.2, overrides S, L, L').

use alloy_primitives::U256;
use revm::interpreter::{InstructionExecResult, InstructionResult};
use tenon_chain::spec::NATIVE_BASE_FEE;

use tenon_execution::family::Step;

fn push(step: Step<'_>, value: U256) -> InstructionExecResult {
    if step.interpreter.stack.push(value) { Ok(()) } else { Err(InstructionResult::StackOverflow) }
}

/// BASEFEE: 12.5 gwei, whatever the header says.
pub(super) fn base_fee(step: Step<'_>) -> InstructionExecResult {
    push(step, U256::from(NATIVE_BASE_FEE))
}

/// DIFFICULTY: the hash of the block number.
pub(super) fn random(step: Step<'_>) -> InstructionExecResult {
    let value = step.host.block.prevrandao.unwrap_or_default();
    push(step, value.into())
}

/// PUSH0.
pub(super) fn push0(step: Step<'_>) -> InstructionExecResult {
    push(step, U256::ZERO)
}
