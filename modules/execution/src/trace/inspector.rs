//! The inspector of a trace, with bounds around what it records.

use alloy_primitives::{Address, Log, U256};
use revm::{
    Inspector,
    context_interface::context::ContextError,
    handler::FrameResult,
    interpreter::{CallInputs, CallOutcome, CreateInputs, CreateOutcome, FrameInput, InstructionResult, Interpreter},
};
use revm_inspectors::tracing::DebugInspector;
use tenon_api::Failure;

use super::{
    TraceOptions,
    recording::{Recording, RecordingMemory},
};
use crate::block::BlockContext;

/// The text by which a run that recorded too much is told from other failures of the EVM.
pub(super) const TOO_LARGE_MARK: &str = "trace too large";

/// Passes everything to the tracer, counts what it records, and stops a run that records too much.
pub(crate) struct TraceInspector {
    pub(super) tracer: DebugInspector,
    recording: Recording,
    /// The run is being stopped; the tracer has not seen the last frame's start and must not see its end.
    is_stopped: bool,
}

impl TraceInspector {
    pub(super) fn new(options: &TraceOptions, most_steps: u64, memory: &RecordingMemory) -> Result<Self, Failure> {
        let tracer = options.inspector()?;
        let struct_log = matches!(tracer, DebugInspector::Default(..)).then_some(&options.geth.config);
        let recording = Recording::new(struct_log, most_steps, memory);
        Ok(Self { tracer, recording, is_stopped: false })
    }

    /// Makes the EVM give up at the next frame boundary.
    fn stop(&mut self, context: &mut BlockContext) {
        self.is_stopped = true;
        context.error = Err(ContextError::Custom(TOO_LARGE_MARK.to_owned()));
    }
}

impl Inspector<BlockContext> for TraceInspector {
    fn initialize_interp(&mut self, interpreter: &mut Interpreter, context: &mut BlockContext) {
        if !self.is_stopped {
            self.tracer.initialize_interp(interpreter, context);
        }
    }

    fn step(&mut self, interpreter: &mut Interpreter, context: &mut BlockContext) {
        if self.is_stopped || !self.recording.count_step(interpreter) {
            self.stop(context);
            interpreter.halt(InstructionResult::FatalExternalError);
        } else if self.recording.is_step_recorded() {
            self.tracer.step(interpreter, context);
        }
    }

    fn step_end(&mut self, interpreter: &mut Interpreter, context: &mut BlockContext) {
        if !self.is_stopped && self.recording.is_step_recorded() {
            self.tracer.step_end(interpreter, context);
        }
    }

    fn log(&mut self, context: &mut BlockContext, log: Log) {
        if !self.is_stopped {
            Inspector::<BlockContext>::log(&mut self.tracer, context, log);
        }
    }

    fn log_full(&mut self, interpreter: &mut Interpreter, context: &mut BlockContext, log: Log) {
        if !self.is_stopped {
            self.tracer.log_full(interpreter, context, log);
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
        Inspector::<BlockContext>::frame_start(&mut self.tracer, context, input)
    }

    fn frame_end(&mut self, context: &mut BlockContext, input: &FrameInput, result: &mut FrameResult) {
        if self.is_stopped {
            return;
        }
        Inspector::<BlockContext>::frame_end(&mut self.tracer, context, input, result);
        if !self.recording.count_output(result.interpreter_result().output.len()) {
            self.stop(context);
        }
    }

    fn call(&mut self, context: &mut BlockContext, inputs: &mut CallInputs) -> Option<CallOutcome> {
        if self.is_stopped {
            return None;
        }
        Inspector::<BlockContext>::call(&mut self.tracer, context, inputs)
    }

    fn call_end(&mut self, context: &mut BlockContext, inputs: &CallInputs, outcome: &mut CallOutcome) {
        if !self.is_stopped {
            Inspector::<BlockContext>::call_end(&mut self.tracer, context, inputs, outcome);
        }
    }

    fn create(&mut self, context: &mut BlockContext, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        if self.is_stopped {
            return None;
        }
        Inspector::<BlockContext>::create(&mut self.tracer, context, inputs)
    }

    fn create_end(&mut self, context: &mut BlockContext, inputs: &CreateInputs, outcome: &mut CreateOutcome) {
        if !self.is_stopped {
            Inspector::<BlockContext>::create_end(&mut self.tracer, context, inputs, outcome);
        }
    }

    fn selfdestruct(&mut self, contract: Address, target: Address, value: U256) {
        if !self.is_stopped {
            Inspector::<BlockContext>::selfdestruct(&mut self.tracer, contract, target, value);
        }
    }
}
