//! What a message failed at, where the words about it name the instruction or the stack (`spec/rpc-eth.md` 10.1).

use revm::{
    Inspector,
    bytecode::opcode::OPCODE_INFO,
    context::result::HaltReason,
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, Interpreter, interpreter::EthInterpreter,
        interpreter_types::Jumps,
    },
};

use crate::block::BlockContext;

/// Values that the EVM's stack holds at most.
const STACK_LIMIT: usize = 1024;

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
                Some(format!("invalid opcode: {}", instruction_text(opcode)))
            }
            HaltReason::StackUnderflow => {
                let required = OPCODE_INFO[usize::from(opcode)].map_or(0, |info| info.inputs());
                Some(format!("stack underflow ({stack_length} <=> {required})"))
            }
            HaltReason::StackOverflow => {
                let (inputs, outputs) =
                    OPCODE_INFO[usize::from(opcode)].map_or((0, 1), |info| (info.inputs(), info.outputs()));
                let limit = STACK_LIMIT + usize::from(inputs) - usize::from(outputs);
                Some(format!("stack limit reached {stack_length} ({limit})"))
            }
            _ => None,
        }
    }
}

/// Whether the words about a failure need its last instruction.
pub(crate) const fn needs_step(reason: &HaltReason) -> bool {
    matches!(
        reason,
        HaltReason::OpcodeNotFound | HaltReason::NotActivated | HaltReason::StackUnderflow | HaltReason::StackOverflow
    )
}

/// The name of an instruction as the reference prints it. It knows those up to Cancun.
pub(crate) fn instruction_text(opcode: u8) -> String {
    const LATER: [u8; 4] = [0x1e, 0xe6, 0xe7, 0xe8];
    let info = OPCODE_INFO[usize::from(opcode)].filter(|_| !LATER.contains(&opcode));
    info.map_or_else(|| format!("opcode {opcode:#x} not defined"), |info| info.name().to_owned())
}

/// Remembers the last instruction of the outermost frame.
#[derive(Default)]
pub(crate) struct LastStep {
    depth: usize,
    pub(crate) step: Option<Step>,
}

impl Inspector<BlockContext, EthInterpreter> for LastStep {
    fn step(&mut self, interpreter: &mut Interpreter<EthInterpreter>, _context: &mut BlockContext) {
        if self.depth == 1 {
            self.step = Some(Step::new(interpreter.bytecode.opcode(), interpreter.stack.len()));
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
            (0x5d, 2, HaltReason::NotActivated, "invalid opcode: TSTORE"),
            (0x01, 1, HaltReason::StackUnderflow, "stack underflow (1 <=> 2)"),
            (0x90, 1, HaltReason::StackUnderflow, "stack underflow (1 <=> 2)"),
            (0x60, 1024, HaltReason::StackOverflow, "stack limit reached 1024 (1023)"),
        ];
        for (opcode, length, reason, expected) in cases {
            assert_eq!(Step::new(opcode, length).words(&reason).as_deref(), Some(expected));
        }
        assert_eq!(Step::new(0x56, 1).words(&HaltReason::InvalidJump), None);
    }
}
