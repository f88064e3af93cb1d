//! The last instruction of a failed message, for texts that name the instruction or the stack (`docs/spec/rpc-eth.md`
//! 10.1).

use std::borrow::Cow;

use revm::{
    Inspector,
    context::{
        TxEnv,
        result::{HaltReason, OutOfGasError},
    },
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, InstructionResult, Interpreter,
        interpreter::EthInterpreter, interpreter_types::LoopControl,
    },
};
use tenon_execution_interface::BlockContext;
use tenon_simulation_interface::HaltCause;
use tenon_traces::StepSnapshot;

/// Maximum gas for a second run of a message that ran out of gas. With more gas it has probably run in a loop, which
/// neither underflows nor overflows the stack, and the second run would take as long as the first.
const MAX_GAS_TO_REPEAT: u64 = 5_000_000;

/// Returns whether the error text needs the last instruction.
pub(crate) fn needs_step(reason: &HaltReason, message: &TxEnv) -> bool {
    match reason {
        HaltReason::OpcodeNotFound
        | HaltReason::NotActivated
        | HaltReason::StackUnderflow
        | HaltReason::StackOverflow
        | HaltReason::OutOfOffset
        | HaltReason::OutOfGas(OutOfGasError::InvalidOperand)
        | HaltReason::CreateInitCodeSizeLimit => true,
        // The EVM charges constant gas before it looks at the stack, the reference after it. The gas may also have been
        // insufficient for the code returned by the creation.
        HaltReason::OutOfGas(_) => message.kind.is_create() || message.gas_limit <= MAX_GAS_TO_REPEAT,
        _ => false,
    }
}

/// Finds out why the outermost frame's last instruction failed.
#[derive(Default)]
pub(crate) struct LastStep {
    depth: usize,
    step: Option<StepSnapshot>,
    cause: Option<HaltCause>,
    /// Whether the frame has ended.
    has_returned: bool,
}

impl LastStep {
    /// Why the frame halted; `None` if the reason alone determines it.
    pub(crate) fn halt_cause(&self, reason: &HaltReason) -> Option<HaltCause> {
        match reason {
            HaltReason::OutOfGas(_) if self.has_returned => {
                Some(HaltCause::Other(Cow::Borrowed("contract creation code storage out of gas")))
            }
            _ => self.cause.clone(),
        }
    }
}

impl Inspector<BlockContext, EthInterpreter> for LastStep {
    fn step(&mut self, interpreter: &mut Interpreter<EthInterpreter>, context: &mut BlockContext) {
        if self.depth == 1 {
            // Without it the reason determines the cause.
            self.step = StepSnapshot::next(interpreter, context).ok();
        }
    }

    fn step_end(&mut self, interpreter: &mut Interpreter<EthInterpreter>, context: &mut BlockContext) {
        if self.depth != 1 {
            return;
        }
        let result = interpreter.bytecode.instruction_result();
        self.has_returned = result.is_some_and(InstructionResult::is_ok);
        let halted = result.filter(|result| result.is_halt() && *result != InstructionResult::FatalExternalError);
        if let (Some(result), Some(step)) = (halted, &self.step) {
            self.cause = step.halt_cause(result, context).ok();
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
