//! What a message failed at, where the words about it name the instruction or the stack (`docs/spec/rpc-eth.md` 10.1).

use revm::{
    Inspector,
    context::{TxEnv, result::HaltReason},
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, InstructionResult, Interpreter,
        interpreter::EthInterpreter,
        interpreter_types::{Jumps, LoopControl},
    },
};

use crate::{
    block::BlockContext,
    instructions::{StackBounds, instruction_name},
};

/// The last instruction of a message's outermost frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    opcode: u8,
    stack_length: usize,
}

impl Step {
    /// An instruction that begins with this many values on the stack.
    pub(crate) const fn new(opcode: u8, stack_length: usize) -> Self {
        Self { opcode, stack_length }
    }

    /// Why it failed; none when the reason alone says it.
    pub(crate) fn words(self, reason: &HaltReason) -> Option<String> {
        let Self { opcode, stack_length } = self;
        match reason {
            HaltReason::OpcodeNotFound | HaltReason::NotActivated => {
                Some(format!("invalid opcode: {}", instruction_name(opcode)))
            }
            // Only an instruction that runs finds the stack too short or too long, and each that runs has bounds.
            HaltReason::StackUnderflow => Some(StackBounds::of(opcode)?.underflow_text(stack_length)),
            HaltReason::StackOverflow => Some(StackBounds::of(opcode)?.overflow_text(stack_length)),
            _ => None,
        }
    }
}

/// Whether the words about a failure need its last instruction.
pub(crate) fn needs_step(reason: &HaltReason, message: &TxEnv) -> bool {
    match reason {
        HaltReason::OpcodeNotFound
        | HaltReason::NotActivated
        | HaltReason::StackUnderflow
        | HaltReason::StackOverflow => true,
        // The gas may not have been enough for the code that the creation returned.
        HaltReason::OutOfGas(_) => message.kind.is_create(),
        _ => false,
    }
}

/// Remembers the last instruction of the outermost frame.
#[derive(Default)]
pub(crate) struct LastStep {
    depth: usize,
    step: Option<Step>,
    /// The frame has run to its end.
    has_returned: bool,
}

impl LastStep {
    /// Why the message failed; none when the reason alone says it.
    pub(crate) fn words(&self, reason: &HaltReason) -> Option<String> {
        match reason {
            HaltReason::OutOfGas(_) if self.has_returned => {
                Some("contract creation code storage out of gas".to_owned())
            }
            reason => self.step?.words(reason),
        }
    }
}

impl Inspector<BlockContext, EthInterpreter> for LastStep {
    fn step(&mut self, interpreter: &mut Interpreter<EthInterpreter>, _context: &mut BlockContext) {
        if self.depth == 1 {
            self.step = Some(Step::new(interpreter.bytecode.opcode(), interpreter.stack.len()));
        }
    }

    fn step_end(&mut self, interpreter: &mut Interpreter<EthInterpreter>, _context: &mut BlockContext) {
        if self.depth == 1 {
            self.has_returned = interpreter.bytecode.instruction_result().is_some_and(InstructionResult::is_ok);
        }
    }

    fn call(&mut self, _context: &mut BlockContext, _inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.depth += 1;
        None
    }

    fn call_end(&mut self, _context: &mut BlockContext, _inputs: &CallInputs, _outcome: &mut CallOutcome) {
        self.depth -= 1;
    }

    fn create(&mut self, _context: &mut BlockContext, _inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        self.depth += 1;
        None
    }

    fn create_end(&mut self, _context: &mut BlockContext, _inputs: &CreateInputs, _outcome: &mut CreateOutcome) {
        self.depth -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_as_the_reference_tells_them() {
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
            assert_eq!(Step::new(opcode, length).words(&reason).as_deref(), Some(expected));
        }
        assert_eq!(Step::new(0x56, 1).words(&HaltReason::InvalidJump), None);
    }
}
