//! Corrects differences between go-ethereum's tracers and the library used here: texts of failed frames, and accounts
//! that were empty before the transaction. The texts are data of a frame, recorded like its output.

use std::borrow::Cow;

use alloy_rpc_types_trace::geth::{AccountState, CallFrame, GethTrace, PreStateFrame};
use revm::{
    context::result::HaltReason,
    interpreter::{InstructionResult, SuccessOrHalt},
};
use tenon_simulation_interface::{StackBounds, halt_cause, instruction_name};

/// Type of the frame that represents a self-destruction, which is not a call.
const SELFDESTRUCT: &str = "SELFDESTRUCT";

/// The last instruction of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FailedStep {
    opcode: u8,
    stack_length: usize,
}

impl FailedStep {
    /// An instruction with this stack length before it runs.
    const fn new(opcode: u8, stack_length: usize) -> Self {
        Self { opcode, stack_length }
    }

    /// The error text; `None` if the reason alone determines it.
    fn error_text(self, reason: &HaltReason) -> Option<String> {
        let Self { opcode, stack_length } = self;
        match reason {
            HaltReason::OpcodeNotFound | HaltReason::NotActivated => {
                Some(format!("invalid opcode: {}", instruction_name(opcode)))
            }
            // Only an executed instruction under- or overflows the stack, and each such instruction has bounds.
            HaltReason::StackUnderflow => Some(StackBounds::of(opcode)?.underflow_text(stack_length)),
            HaltReason::StackOverflow => Some(StackBounds::of(opcode)?.overflow_text(stack_length)),
            _ => None,
        }
    }
}

/// Errors of a transaction's frames, in the order in which they began.
#[derive(Default)]
pub(crate) struct FrameFailures {
    texts: Vec<Option<Cow<'static, str>>>,
    /// The open frames, outermost first: their index in `texts` and their last instruction.
    running: Vec<(usize, Option<FailedStep>)>,
}

impl FrameFailures {
    pub(crate) fn frame_starts(&mut self) {
        self.running.push((self.texts.len(), None));
        self.texts.push(None);
    }

    pub(crate) fn step(&mut self, opcode: u8, stack_length: usize) {
        if let Some((_, step)) = self.running.last_mut() {
            *step = Some(FailedStep::new(opcode, stack_length));
        }
    }

    pub(crate) fn frame_ends(&mut self, result: InstructionResult) {
        let Some((place, step)) = self.running.pop() else { return };
        // The problem found by a precompiled contract is not known here.
        if let SuccessOrHalt::Halt(reason) = SuccessOrHalt::<HaltReason>::from(result)
            && !matches!(reason, HaltReason::PrecompileError)
        {
            let of_step = step.and_then(|step| step.error_text(&reason)).map(Cow::Owned);
            self.texts[place] = Some(of_step.unwrap_or_else(|| halt_cause(&reason).into_text()));
        }
    }

    /// Inserts the error texts into the result of a tracer, and removes what go-ethereum leaves out.
    pub(crate) fn amend(&self, trace: &mut GethTrace) {
        match trace {
            GethTrace::CallTracer(frame) => amend_call(frame, &mut self.texts.iter()),
            GethTrace::PreStateTracer(PreStateFrame::Diff(states)) => states.pre.retain(|_, state| !is_empty(state)),
            GethTrace::MuxTracer(traces) => traces.0.values_mut().for_each(|trace| self.amend(trace)),
            _ => {}
        }
    }
}

fn amend_call<'a>(frame: &mut CallFrame, texts: &mut impl Iterator<Item = &'a Option<Cow<'static, str>>>) {
    if frame.typ == SELFDESTRUCT {
        return;
    }
    if let (Some(Some(text)), Some(error)) = (texts.next(), &mut frame.error) {
        text.as_ref().clone_into(error);
    }
    // A tree of calls is as deep as the EVM allows; traces run on a stack large enough for that.
    frame.calls.iter_mut().for_each(|call| amend_call(call, texts));
}

fn is_empty(state: &AccountState) -> bool {
    state.balance.is_none_or(|balance| balance.is_zero())
        && state.nonce.is_none_or(|nonce| nonce == 0)
        && state.code.as_ref().is_none_or(|code| code.is_empty())
        && state.storage.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_the_references_texts() {
        let cases = [
            (0x0c, 0, HaltReason::OpcodeNotFound, "invalid opcode: opcode 0xc not defined"),
            (0x1e, 0, HaltReason::OpcodeNotFound, "invalid opcode: opcode 0x1e not defined"),
            (0x4b, 0, HaltReason::NotActivated, "invalid opcode: opcode 0x4b not defined"),
            (0x5d, 2, HaltReason::NotActivated, "invalid opcode: TSTORE"),
            (0x01, 1, HaltReason::StackUnderflow, "stack underflow (1 <=> 2)"),
            (0x1e, 0, HaltReason::StackUnderflow, "stack underflow (0 <=> 1)"),
            (0x90, 1, HaltReason::StackUnderflow, "stack underflow (1 <=> 2)"),
            (0x60, 1024, HaltReason::StackOverflow, "stack limit reached 1024 (1023)"),
        ];
        for (opcode, length, reason, expected) in cases {
            assert_eq!(FailedStep::new(opcode, length).error_text(&reason).as_deref(), Some(expected));
        }
        assert_eq!(FailedStep::new(0x56, 1).error_text(&HaltReason::InvalidJump), None);
    }
}
