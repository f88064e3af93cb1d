//! The inspector of a trace, with bounds around what it records.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use alloy_primitives::{Address, Log, U256};
use revm::{
    Inspector,
    context_interface::context::ContextError,
    handler::FrameResult,
    interpreter::{CallInputs, CallOutcome, CreateInputs, CreateOutcome, FrameInput, InstructionResult, Interpreter},
};
use revm_inspectors::tracing::{DebugInspector, types::CallTraceStep};
use tenon_api::Failure;

use super::TraceOptions;
use crate::block::BlockContext;

/// What the recording of one instruction takes at least, bytes.
const STEP_BYTES: u64 = size_of::<CallTraceStep>() as u64;

/// By how much a recording's share of the common memory grows at a time, bytes.
const SHARE_STEP: u64 = 1 << 20;

/// The memory that all recordings of this node share. Clones share it.
#[derive(Clone)]
pub(crate) struct RecordingMemory {
    free: Arc<AtomicU64>,
}

impl RecordingMemory {
    /// So many bytes for all recordings together.
    pub(crate) fn new(bytes: u64) -> Self {
        Self { free: Arc::new(AtomicU64::new(bytes)) }
    }

    fn take(&self, bytes: u64) -> bool {
        let take = |free: u64| free.checked_sub(bytes);
        self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.free.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The text by which a run that recorded too much is told from other failures of the EVM.
pub(super) const TOO_LARGE_MARK: &str = "trace too large";

/// Passes everything to the tracer, counts what a struct logger records, and stops a run that records too much.
pub(crate) struct TraceInspector {
    pub(super) tracer: DebugInspector,
    /// None for tracers that record calls only: those are bounded by gas.
    recording: Option<Recording>,
}

struct Recording {
    steps: u64,
    bytes: u64,
    most_steps: u64,
    memory: RecordingMemory,
    /// Bytes taken from `memory`, given back when the recording is dropped.
    share: u64,
    /// How many steps the caller wants; later ones are executed but not recorded.
    wanted: u64,
    with_stack: bool,
    with_memory: bool,
    with_return_data: bool,
    /// Whether the step that runs now is recorded: its end must then be too.
    is_recorded: bool,
}

impl TraceInspector {
    pub(crate) fn new(options: &TraceOptions, most_steps: u64, memory: &RecordingMemory) -> Result<Self, Failure> {
        let tracer = options.inspector()?;
        let config = &options.geth.config;
        let recording = matches!(tracer, DebugInspector::Default(..)).then(|| Recording {
            steps: 0,
            bytes: 0,
            most_steps,
            memory: memory.clone(),
            share: 0,
            wanted: config.limit.filter(|limit| *limit > 0).unwrap_or(u64::MAX),
            with_stack: config.is_stack_enabled(),
            with_memory: config.is_memory_enabled(),
            with_return_data: config.is_return_data_enabled(),
            is_recorded: false,
        });
        Ok(Self { tracer, recording })
    }
}

impl Recording {
    /// Counts the next step; false when that is one too many.
    fn has_room(&mut self, interpreter: &Interpreter) -> bool {
        self.is_recorded = self.steps < self.wanted;
        if !self.is_recorded {
            return true;
        }
        self.steps += 1;
        self.bytes += STEP_BYTES;
        if self.with_stack {
            self.bytes += 32 * interpreter.stack.len() as u64;
        }
        if self.with_memory {
            self.bytes += interpreter.memory.len() as u64;
        }
        if self.with_return_data {
            self.bytes += interpreter.return_data.0.len() as u64;
        }
        self.steps <= self.most_steps && self.grow_share()
    }

    fn grow_share(&mut self) -> bool {
        while self.share < self.bytes {
            if !self.memory.take(SHARE_STEP) {
                return false;
            }
            self.share += SHARE_STEP;
        }
        true
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.memory.give_back(self.share);
    }
}

impl Inspector<BlockContext> for TraceInspector {
    fn initialize_interp(&mut self, interpreter: &mut Interpreter, context: &mut BlockContext) {
        self.tracer.initialize_interp(interpreter, context);
    }

    fn step(&mut self, interpreter: &mut Interpreter, context: &mut BlockContext) {
        if let Some(recording) = &mut self.recording {
            if !recording.has_room(interpreter) {
                context.error = Err(ContextError::Custom(TOO_LARGE_MARK.to_owned()));
                interpreter.halt(InstructionResult::FatalExternalError);
                return;
            }
            if !recording.is_recorded {
                return;
            }
        }
        self.tracer.step(interpreter, context);
    }

    fn step_end(&mut self, interpreter: &mut Interpreter, context: &mut BlockContext) {
        if self.recording.as_ref().is_none_or(|recording| recording.is_recorded) {
            self.tracer.step_end(interpreter, context);
        }
    }

    fn log(&mut self, context: &mut BlockContext, log: Log) {
        Inspector::<BlockContext>::log(&mut self.tracer, context, log);
    }

    fn log_full(&mut self, interpreter: &mut Interpreter, context: &mut BlockContext, log: Log) {
        self.tracer.log_full(interpreter, context, log);
    }

    fn frame_start(&mut self, context: &mut BlockContext, input: &mut FrameInput) -> Option<FrameResult> {
        Inspector::<BlockContext>::frame_start(&mut self.tracer, context, input)
    }

    fn frame_end(&mut self, context: &mut BlockContext, input: &FrameInput, result: &mut FrameResult) {
        Inspector::<BlockContext>::frame_end(&mut self.tracer, context, input, result);
    }

    fn call(&mut self, context: &mut BlockContext, inputs: &mut CallInputs) -> Option<CallOutcome> {
        Inspector::<BlockContext>::call(&mut self.tracer, context, inputs)
    }

    fn call_end(&mut self, context: &mut BlockContext, inputs: &CallInputs, outcome: &mut CallOutcome) {
        Inspector::<BlockContext>::call_end(&mut self.tracer, context, inputs, outcome);
    }

    fn create(&mut self, context: &mut BlockContext, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        Inspector::<BlockContext>::create(&mut self.tracer, context, inputs)
    }

    fn create_end(&mut self, context: &mut BlockContext, inputs: &CreateInputs, outcome: &mut CreateOutcome) {
        Inspector::<BlockContext>::create_end(&mut self.tracer, context, inputs, outcome);
    }

    fn selfdestruct(&mut self, contract: Address, target: Address, value: U256) {
        Inspector::<BlockContext>::selfdestruct(&mut self.tracer, contract, target, value);
    }
}
