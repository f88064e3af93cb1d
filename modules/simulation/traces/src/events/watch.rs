//! Converts the EVM's reports to events.

use alloy_primitives::{Address, Bytes, U256};
use revm::{
    bytecode::opcode::{SELFDESTRUCT, SSTORE},
    context::CreateScheme,
    handler::FrameResult,
    interpreter::{
        CallInputs, CallScheme, CreateInputs, FrameInput, InstructionResult, Interpreter, InterpreterAction,
        InterpreterResult,
        interpreter_types::{InputsTr, Jumps, LoopControl},
    },
    state::EvmState,
};
use tenon_api::{
    WholeBalance,
    messages::{FrameKind, TraceResult},
};
use tenon_execution_interface::{BlockContext, BlockState, ExtraPrecompiles, MovedPrecompiles, StateError, widen};
use tenon_javascript::{Script, ScriptError};
use tenon_simulation_interface::precompile_failure;

use super::{
    accounts::{Accounts, Layered},
    failed_step::StepSnapshot,
    script::{ScriptRun, ScriptTracer},
    tracer::{FrameEnd, FrameStart, REVERTED, Run, Step, StepEnd, Tracer, TracerFailure},
};

/// A tracer, and the state needed to send it events.
pub struct Watch {
    tracer: Box<dyn Tracer>,
    /// Open frames, newest last.
    frames: Vec<OpenFrame>,
    /// The current instruction.
    step: Option<StepSnapshot>,
    /// Wei that SELFDESTRUCT is about to move, and the receiver.
    destruction: Option<(Address, WholeBalance)>,
    /// Why the newest instruction failed; its frame ends next.
    failure: Option<String>,
    outermost: Option<(FrameStart, FrameEnd)>,
    /// Precompiled contracts of the chain's family, for the texts of their failures.
    extras: Option<&'static dyn ExtraPrecompiles>,
}

struct OpenFrame {
    start: FrameStart,
    /// Whether the tracer got its start event. Calls that are refused before they begin have none.
    is_announced: bool,
    /// Whether there is no code: the reference then does not even run the implicit STOP.
    has_no_code: bool,
    /// Refund of its own instructions and of the frames that it opened.
    refund: i64,
}

impl Watch {
    /// A watch that sends the run to this tracer.
    pub fn new(tracer: Box<dyn Tracer>, precompiles: &MovedPrecompiles) -> Self {
        let (frames, extras) = (Vec::new(), precompiles.extras());
        Self { tracer, frames, step: None, destruction: None, failure: None, outermost: None, extras }
    }

    /// A watch that sends the run to a script.
    pub(crate) fn of_script(script: Script, run: ScriptRun, precompiles: &MovedPrecompiles) -> Self {
        Self::new(Box::new(ScriptTracer::new(script, run)), precompiles)
    }

    /// Approximate memory use of the tracer, bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.tracer.held_bytes()
    }

    /// Whether the run can be ended, because there will be no answer.
    pub(crate) fn has_failed(&self) -> bool {
        self.tracer.has_failed()
    }

    /// Why there is none.
    pub(crate) fn take_error(&mut self) -> Option<ScriptError> {
        self.tracer.take_error()
    }

    /// A frame is about to begin, unless it is refused.
    ///
    /// # Errors
    /// The database failed; likewise for the methods below.
    pub(crate) fn frame_start(&mut self, context: &mut BlockContext, input: &FrameInput) -> Result<(), StateError> {
        let (start, has_no_code) = match input {
            FrameInput::Call(inputs) => (call_start(inputs, context), false),
            FrameInput::Create(inputs) => (creation_start(inputs, context)?, inputs.init_code().is_empty()),
            FrameInput::Empty => return Ok(()),
        };
        self.frames.push(OpenFrame { start, is_announced: false, has_no_code, refund: 0 });
        self.tracer.settle(&mut Layered::during(context))
    }

    /// The newest frame runs.
    pub(crate) fn frame_runs(&mut self) {
        self.announce();
    }

    fn announce(&mut self) {
        let is_outermost = self.frames.len() == 1;
        let Some(frame) = self.frames.last_mut() else { return };
        if std::mem::replace(&mut frame.is_announced, true) {
            return;
        }
        if is_outermost {
            self.tracer.start(&frame.start);
        } else {
            self.tracer.enter(&frame.start);
        }
    }

    /// The newest frame has ended.
    pub(crate) fn frame_end(&mut self, result: &FrameResult) {
        let outcome = result.interpreter_result();
        if let Some(frame) = self.frames.last()
            && !frame.is_announced
            && is_refused(outcome.result)
        {
            self.frames.pop();
            return;
        }
        self.announce();
        let Some(frame) = self.frames.pop() else { return };
        let end = self.end_of(&frame.start, outcome);
        if self.frames.is_empty() {
            self.tracer.end(&end);
            self.outermost = Some((frame.start, end));
        } else {
            self.tracer.exit(&end);
        }
    }

    fn end_of(&mut self, start: &FrameStart, outcome: &InterpreterResult) -> FrameEnd {
        let failure = self.failure.take();
        let keeps_gas = outcome.result.is_ok_or_revert();
        let gas_used = if keeps_gas { start.gas.saturating_sub(outcome.gas.remaining()) } else { start.gas };
        let error = match outcome.result {
            result if result.is_ok() => None,
            InstructionResult::Revert => Some(REVERTED.to_owned()),
            result => Some(failure.unwrap_or_else(|| frame_failure(result, start, self.extras))),
        };
        FrameEnd { output: outcome.output.clone(), gas_used, error }
    }

    /// An instruction is about to run.
    pub(crate) fn step(&mut self, interpreter: &Interpreter, context: &mut BlockContext) -> Result<(), StateError> {
        self.step = None;
        self.destruction = None;
        let depth = self.frames.len();
        if self.frames.last().is_none_or(|frame| frame.has_no_code) {
            return Ok(());
        }
        if let Some(frame) = self.frames.last_mut() {
            frame.refund = interpreter.gas.refunded();
        }
        let refund: i64 = self.frames.iter().map(|frame| frame.refund).sum();
        let refund = context.journaled_state.database.first_refund().saturating_add_signed(refund);
        let nothing = Bytes::new();
        let input = match self.frames.last() {
            Some(frame) if !frame.start.kind.is_creation() => &frame.start.input,
            _ => &nothing,
        };
        let memory = interpreter.memory.context_memory();
        let mut step = Step {
            pc: interpreter.bytecode.pc(),
            opcode: interpreter.bytecode.opcode(),
            gas: interpreter.gas.remaining(),
            depth,
            stack: interpreter.stack.data(),
            memory: &memory,
            contract: interpreter.input.target_address(),
            caller: interpreter.input.caller_address(),
            value: interpreter.input.call_value(),
            input,
            refund,
            ahead: None,
        };
        let kept = StepSnapshot::capture(&step, context)?;
        if matches!(step.opcode, SSTORE | SELFDESTRUCT) && self.tracer.reads_state() {
            step.ahead = Some(kept.ahead(context)?);
        }
        self.step = Some(kept);
        let mut accounts = Layered::during(context);
        if step.opcode == SELFDESTRUCT {
            let beneficiary = Address::from_word(step.peek(0).into());
            self.destruction = Some((beneficiary, accounts.balance(step.contract)?));
        }
        self.tracer.step(&step, &mut accounts)
    }

    /// The instruction has ended.
    pub(crate) fn step_end(
        &mut self,
        interpreter: &mut Interpreter,
        context: &mut BlockContext,
    ) -> Result<(), StateError> {
        let Some(step) = self.step.take() else { return Ok(()) };
        let spent = step.gas.saturating_sub(interpreter.gas.remaining());
        let result = interpreter.bytecode.instruction_result();
        match result {
            // The run is being stopped.
            Some(InstructionResult::FatalExternalError) => {}
            Some(InstructionResult::Revert) => {
                self.tracer.step_end(StepEnd::Failed { cost: spent, error: REVERTED });
            }
            Some(result) if result.is_halt() => self.failed_step(&step, result, context)?,
            Some(InstructionResult::SelfDestruct) => {
                self.tracer.step_end(StepEnd::Ran { cost: spent });
                self.destroyed(interpreter.input.target_address());
            }
            _ => {
                let handed_over = match interpreter.bytecode.action() {
                    Some(InterpreterAction::NewFrame(FrameInput::Create(inputs))) => inputs.gas_limit(),
                    _ => 0,
                };
                self.tracer.step_end(StepEnd::Ran { cost: spent.saturating_sub(handed_over) });
            }
        }
        // The frame ends, and its changes are kept or reverted.
        match result {
            Some(_) => self.tracer.settle(&mut Layered::during(context)),
            None => Ok(()),
        }
    }

    fn failed_step(
        &mut self,
        step: &StepSnapshot,
        result: InstructionResult,
        context: &mut BlockContext,
    ) -> Result<(), StateError> {
        if let Some((cause, cost)) = step.refusal(result, context)? {
            let error = cause.into_text().into_owned();
            self.tracer.step_end(StepEnd::Refused { cost, error: &error });
            self.failure = Some(error);
            return Ok(());
        }
        let (error, cost) = (step.failure_text(result), step.price(result, context)?);
        self.tracer.step_end(StepEnd::Failed { cost, error: &error });
        self.failure = Some(error);
        Ok(())
    }

    /// A self-destruction is a frame of its own, which does nothing.
    fn destroyed(&mut self, contract: Address) {
        let Some((beneficiary, balance)) = self.destruction.take() else { return };
        self.tracer.enter(&FrameStart {
            kind: FrameKind::SelfDestruct,
            from: contract,
            to: beneficiary,
            input: Bytes::new(),
            gas: 0,
            value: Some(balance),
        });
        self.tracer.exit(&FrameEnd { output: Bytes::new(), gas_used: 0, error: None });
    }

    /// The answer.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn result(
        &mut self,
        gas: RunGas,
        changed: &EvmState,
        state: &mut BlockState,
    ) -> Result<TraceResult, TracerFailure> {
        let RunGas { gas_used, intrinsic_gas, gas_price } = gas;
        let frame = self.outermost.as_ref().map(|(start, end)| (start, end));
        let run = Run { gas_used, intrinsic_gas, gas_price, frame };
        self.tracer.result(&run, &mut Layered::after(changed, state))
    }
}

/// Gas of a run.
pub(crate) struct RunGas {
    /// Gas of the whole transaction, after refunds.
    pub(crate) gas_used: u64,
    /// Gas before the first instruction.
    pub(crate) intrinsic_gas: u64,
    /// Wei per gas that the sender pays.
    pub(crate) gas_price: U256,
}

fn call_start(inputs: &CallInputs, context: &BlockContext) -> FrameStart {
    let (kind, from, value) = match inputs.scheme {
        CallScheme::Call => (FrameKind::Call, inputs.caller, Some(inputs.call_value())),
        CallScheme::CallCode => (FrameKind::CallCode, inputs.caller, Some(inputs.call_value())),
        CallScheme::DelegateCall => (FrameKind::DelegateCall, inputs.target_address, None),
        CallScheme::StaticCall => (FrameKind::StaticCall, inputs.caller, None),
    };
    let (input, gas) = (inputs.input.bytes(context), inputs.gas_limit);
    FrameStart { kind, from, to: inputs.bytecode_address, input, gas, value: value.map(widen) }
}

fn creation_start(inputs: &CreateInputs, context: &mut BlockContext) -> Result<FrameStart, StateError> {
    let kind = match inputs.scheme() {
        CreateScheme::Create2 { .. } => FrameKind::Create2,
        _ => FrameKind::Create,
    };
    let nonce = Layered::during(context).nonce(inputs.caller())?;
    Ok(FrameStart {
        kind,
        from: inputs.caller(),
        to: inputs.created_address(nonce),
        input: inputs.init_code().clone(),
        gas: inputs.gas_limit(),
        value: Some(widen(inputs.value())),
    })
}

/// Returns whether a frame did not begin: the reference reports no such frame to tracers.
const fn is_refused(result: InstructionResult) -> bool {
    use InstructionResult as Is;
    matches!(result, Is::CallTooDeep | Is::OutOfFunds | Is::OverflowPayment | Is::CreateCollision | Is::NonceOverflow)
}

/// The text for a frame that failed without a failed instruction.
fn frame_failure(
    result: InstructionResult,
    start: &FrameStart,
    extras: Option<&'static dyn ExtraPrecompiles>,
) -> String {
    use InstructionResult as Is;
    let text = match result {
        Is::CreateContractSizeLimit => "max code size exceeded",
        Is::CreateContractStartingWithEF => "invalid code: must not begin with 0xef",
        Is::OutOfGas if start.kind.is_creation() => "contract creation code storage out of gas",
        Is::PrecompileError => {
            let cause = precompile_failure(extras, start.to, &start.input);
            return cause.map_or_else(|| "precompile failed".to_owned(), |cause| cause.into_text().into_owned());
        }
        Is::OutOfGas | Is::PrecompileOOG => "out of gas",
        other => return format!("{other:?}"),
    };
    text.to_owned()
}
