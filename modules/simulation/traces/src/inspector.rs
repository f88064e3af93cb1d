//! The inspector of a trace, with limits on what it records.

use alloy_primitives::{Address, Log, U256};
use alloy_rpc_types_trace::geth::GethTrace;
use revm::{
    Inspector,
    bytecode::opcode::SELFDESTRUCT,
    context_interface::context::ContextError,
    handler::FrameResult,
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, FrameInput, InstructionResult, Interpreter,
        InterpreterAction,
        interpreter_types::{InputsTr, Jumps, LoopControl},
    },
};
use revm_inspectors::tracing::DebugInspector;
use tenon_execution_interface::{BlockContext, StateError};

use crate::{
    events::Watch,
    frame_failures::FrameFailures,
    recording::{Recording, StepOptions, TraceMemory},
};

/// The error text that distinguishes a run that recorded too much from other failures of the EVM.
pub(crate) const TOO_LARGE_MARK: &str = "trace too large";

/// The error text of a run that is ended because its tracer has failed.
pub(crate) const TRACER_FAILED_MARK: &str = "tracer failed";

/// Passes all events to the tracer, counts what it records, and stops a run that records too much.
pub struct TraceInspector {
    /// The tracer of the current transaction.
    pub tracer: ActiveTracer,
    recording: Recording,
    /// Whether the run is being stopped; the tracer has not seen the last frame's start and must not see its end.
    is_stopped: bool,
}

/// The active tracer.
#[allow(clippy::large_enum_variant, reason = "one a trace; a box would cost an indirection each instruction")]
pub enum ActiveTracer {
    /// A tracer of the library that records calls and instructions.
    Library(LibraryTracer),
    /// A tracer that receives events.
    Events(Watch),
    /// No tracer.
    Idle,
}

/// A tracer of the library, with data that the library does not provide.
pub struct LibraryTracer {
    /// The library's inspector.
    pub inner: DebugInspector,
    failures: FrameFailures,
    /// The effect of the current instruction, if it is SELFDESTRUCT and succeeds.
    destruction: Option<Destruction>,
}

/// A contract that destroys itself.
struct Destruction {
    contract: Address,
    target: Address,
    /// Its balance before.
    value: U256,
}

impl LibraryTracer {
    /// Corrects a result of the library.
    pub fn amend(&self, trace: &mut GethTrace) {
        self.failures.amend(trace);
    }

    /// The effect of the next instruction, if it is SELFDESTRUCT. The library learns of destructions from the journal,
    /// which has no entry for a contract that sends its balance to itself (EIP-6780).
    fn destruction(interpreter: &Interpreter, context: &BlockContext) -> Option<Destruction> {
        if interpreter.bytecode.opcode() != SELFDESTRUCT {
            return None;
        }
        let contract = interpreter.input.target_address();
        let target = Address::from_word(interpreter.stack.peek(0).ok()?.into());
        let value = context.journaled_state.inner.state.get(&contract)?.info.balance;
        Some(Destruction { contract, target, value })
    }
}

impl TraceInspector {
    /// Traces the next transaction with the library's inspector, which may record this number of steps.
    pub fn begin_library(&mut self, inner: DebugInspector, max_steps: u64) {
        let (of_steps, max_steps) = match &inner {
            DebugInspector::Default(_, options) => (Some(StepOptions::of_struct_log(options)), max_steps),
            DebugInspector::Erc7562Tracer(..) => (Some(StepOptions::of_validation()), u64::MAX),
            _ => (None, max_steps),
        };
        self.recording.restart(of_steps, max_steps);
        let tracer = LibraryTracer { inner, failures: FrameFailures::default(), destruction: None };
        (self.tracer, self.is_stopped) = (ActiveTracer::Library(tracer), false);
    }

    /// Drops the recording.
    pub fn end(&mut self) {
        (self.tracer, self.is_stopped) = (ActiveTracer::Idle, false);
        self.recording.restart(None, 0);
    }

    /// An inspector that sends a transaction's events to a tracer.
    pub fn of_events(watch: Watch, memory: &TraceMemory) -> Self {
        let recording = Recording::new(None, u64::MAX, memory);
        Self { tracer: ActiveTracer::Events(watch), recording, is_stopped: false }
    }

    /// For transactions that are executed without a trace.
    pub fn idle(memory: &TraceMemory) -> Self {
        Self { tracer: ActiveTracer::Idle, recording: Recording::new(None, 0, memory), is_stopped: false }
    }

    /// Bytes recorded.
    pub const fn recorded_bytes(&self) -> u64 {
        self.recording.bytes()
    }

    /// Makes the EVM stop at the next frame boundary.
    fn stop(&mut self, context: &mut BlockContext) {
        // The first reason counts.
        if self.is_stopped {
            return;
        }
        self.fail(context, ContextError::Custom(TOO_LARGE_MARK.to_owned()));
    }

    fn fail(&mut self, context: &mut BlockContext, error: ContextError<StateError>) {
        self.is_stopped = true;
        context.error = Err(error);
    }

    /// Handles an error of a tracer that receives events, and checks its memory.
    fn after_event(&mut self, context: &mut BlockContext, result: Result<(), StateError>) {
        if let Err(error) = result {
            return self.fail(context, ContextError::Db(error));
        }
        let ActiveTracer::Events(watch) = &self.tracer else { return };
        if watch.has_failed() {
            return self.fail(context, ContextError::Custom(TRACER_FAILED_MARK.to_owned()));
        }
        if !self.recording.count_held(watch.held_bytes()) {
            self.stop(context);
        }
    }

    fn library_tracer(&mut self) -> Option<&mut LibraryTracer> {
        match &mut self.tracer {
            ActiveTracer::Library(tracer) if !self.is_stopped => Some(tracer),
            _ => None,
        }
    }
}

impl Inspector<BlockContext> for TraceInspector {
    fn initialize_interp(&mut self, interpreter: &mut Interpreter, context: &mut BlockContext) {
        match &mut self.tracer {
            _ if self.is_stopped => {}
            ActiveTracer::Library(tracer) => tracer.inner.initialize_interp(interpreter, context),
            ActiveTracer::Events(watch) => watch.frame_runs(),
            ActiveTracer::Idle => {}
        }
    }

    fn step(&mut self, interpreter: &mut Interpreter, context: &mut BlockContext) {
        if let ActiveTracer::Events(watch) = &mut self.tracer
            && !self.is_stopped
        {
            let result = watch.step(interpreter, context);
            self.after_event(context, result);
        }
        if self.is_stopped || !self.recording.count_step(interpreter) {
            self.stop(context);
            interpreter.halt(InstructionResult::FatalExternalError);
            return;
        }
        let is_recorded = self.recording.is_step_recorded();
        if let Some(tracer) = self.library_tracer() {
            tracer.failures.step(interpreter.bytecode.opcode(), interpreter.stack.len());
            tracer.destruction = LibraryTracer::destruction(interpreter, context);
            if is_recorded {
                tracer.inner.step(interpreter, context);
            }
        }
    }

    fn step_end(&mut self, interpreter: &mut Interpreter, context: &mut BlockContext) {
        if self.is_stopped {
            return;
        }
        if let ActiveTracer::Events(watch) = &mut self.tracer {
            let result = watch.step_end(interpreter, context);
            self.after_event(context, result);
            return;
        }
        let is_recorded = self.recording.is_step_recorded();
        let Some(tracer) = self.library_tracer() else { return };
        if is_recorded {
            tracer.inner.step_end(interpreter, context);
        }
        if let Some(Destruction { contract, target, value }) = tracer.destruction.take()
            && let Some(InterpreterAction::Return(result)) = interpreter.bytecode.action()
            && result.result == InstructionResult::SelfDestruct
        {
            Inspector::<BlockContext>::selfdestruct(&mut tracer.inner, contract, target, value);
        }
    }

    fn log(&mut self, context: &mut BlockContext, log: Log) {
        if let Some(tracer) = self.library_tracer() {
            Inspector::<BlockContext>::log(&mut tracer.inner, context, log);
        }
    }

    fn log_full(&mut self, interpreter: &mut Interpreter, context: &mut BlockContext, log: Log) {
        if let Some(tracer) = self.library_tracer() {
            tracer.inner.log_full(interpreter, context, log);
        }
    }

    fn frame_start(&mut self, context: &mut BlockContext, input: &mut FrameInput) -> Option<FrameResult> {
        let length = match input {
            FrameInput::Call(inputs) => inputs.input.len(),
            FrameInput::Create(inputs) => inputs.init_code().len(),
            FrameInput::Empty => 0,
        };
        if self.is_stopped || !self.recording.count_call(length) {
            self.stop(context);
            return None;
        }
        if let ActiveTracer::Events(watch) = &mut self.tracer {
            let result = watch.frame_start(context, input);
            self.after_event(context, result);
            return None;
        }
        let tracer = self.library_tracer()?;
        tracer.failures.frame_starts();
        Inspector::<BlockContext>::frame_start(&mut tracer.inner, context, input)
    }

    fn frame_end(&mut self, context: &mut BlockContext, input: &FrameInput, result: &mut FrameResult) {
        if self.is_stopped {
            return;
        }
        match &mut self.tracer {
            ActiveTracer::Library(tracer) => {
                tracer.failures.frame_ends(result.interpreter_result().result);
                Inspector::<BlockContext>::frame_end(&mut tracer.inner, context, input, result);
            }
            ActiveTracer::Events(watch) => watch.frame_end(result),
            ActiveTracer::Idle => {}
        }
        if !self.recording.count_output(result.interpreter_result().output.len()) {
            self.stop(context);
        }
    }

    fn call(&mut self, context: &mut BlockContext, inputs: &mut CallInputs) -> Option<CallOutcome> {
        Inspector::<BlockContext>::call(&mut self.library_tracer()?.inner, context, inputs)
    }

    fn call_end(&mut self, context: &mut BlockContext, inputs: &CallInputs, outcome: &mut CallOutcome) {
        if let Some(tracer) = self.library_tracer() {
            Inspector::<BlockContext>::call_end(&mut tracer.inner, context, inputs, outcome);
        }
    }

    fn create(&mut self, context: &mut BlockContext, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        Inspector::<BlockContext>::create(&mut self.library_tracer()?.inner, context, inputs)
    }

    fn create_end(&mut self, context: &mut BlockContext, inputs: &CreateInputs, outcome: &mut CreateOutcome) {
        if let Some(tracer) = self.library_tracer() {
            Inspector::<BlockContext>::create_end(&mut tracer.inner, context, inputs, outcome);
        }
    }

    fn selfdestruct(&mut self, contract: Address, target: Address, value: U256) {
        if let Some(tracer) = self.library_tracer() {
            Inspector::<BlockContext>::selfdestruct(&mut tracer.inner, contract, target, value);
        }
    }
}
