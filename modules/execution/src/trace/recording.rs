//! How much a trace records, and the memory that all recordings share.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use alloy_rpc_types_trace::geth::GethDefaultTracingOptions;
use revm::interpreter::Interpreter;
use revm_inspectors::tracing::types::{CallTraceNode, CallTraceStep};

/// What the recording of one instruction takes at least, bytes.
const STEP_BYTES: u64 = size_of::<CallTraceStep>() as u64;

/// What the recording of one call takes at least, bytes.
const CALL_BYTES: u64 = size_of::<CallTraceNode>() as u64;

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

/// Counts what one traced transaction records. Gas does not bound it: a call that hands over a megabyte of memory
/// costs hardly more than one that hands over nothing, but a tracer copies it.
pub(super) struct Recording {
    steps: u64,
    bytes: u64,
    most_steps: u64,
    memory: RecordingMemory,
    /// Bytes taken from `memory`, given back when the recording is dropped.
    share: u64,
    /// None for tracers that record calls only.
    struct_log: Option<StructLogWish>,
    /// Whether the step that runs now is recorded: its end must then be too.
    is_step_recorded: bool,
}

/// What a struct logger was asked to record.
struct StructLogWish {
    /// How many steps; later ones are executed but not recorded.
    steps: u64,
    with_stack: bool,
    with_memory: bool,
    with_return_data: bool,
}

impl Recording {
    /// An empty recording; `struct_log` are the options of a struct logger, none for other tracers.
    pub(super) fn new(
        struct_log: Option<&GethDefaultTracingOptions>,
        most_steps: u64,
        memory: &RecordingMemory,
    ) -> Self {
        let struct_log = struct_log.map(|options| StructLogWish {
            steps: options.limit.filter(|limit| *limit > 0).unwrap_or(u64::MAX),
            with_stack: options.is_stack_enabled(),
            with_memory: options.is_memory_enabled(),
            with_return_data: options.is_return_data_enabled(),
        });
        let memory = memory.clone();
        Self { steps: 0, bytes: 0, most_steps, memory, share: 0, struct_log, is_step_recorded: true }
    }

    /// Whether the step that runs now goes to the tracer.
    pub(super) const fn is_step_recorded(&self) -> bool {
        self.is_step_recorded
    }

    /// Counts the next step; false when that is one too many.
    pub(super) fn count_step(&mut self, interpreter: &Interpreter) -> bool {
        let Some(wish) = &self.struct_log else { return true };
        self.is_step_recorded = self.steps < wish.steps;
        if !self.is_step_recorded {
            return true;
        }
        self.steps += 1;
        self.bytes += STEP_BYTES;
        if wish.with_stack {
            self.bytes += 32 * interpreter.stack.len() as u64;
        }
        if wish.with_memory {
            self.bytes += interpreter.memory.len() as u64;
        }
        if wish.with_return_data {
            self.bytes += interpreter.return_data.0.len() as u64;
        }
        self.steps <= self.most_steps && self.has_memory()
    }

    /// Counts what a tracer says that it holds; false when that is too much.
    pub(super) fn count_held(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.max(bytes as u64);
        self.has_memory()
    }

    /// Counts a call with so many bytes of input; false when they are too many.
    pub(super) fn count_call(&mut self, input: usize) -> bool {
        self.bytes = self.bytes.saturating_add(CALL_BYTES).saturating_add(input as u64);
        self.has_memory()
    }

    /// Counts what a call returned; false when that is too much.
    pub(super) fn count_output(&mut self, output: usize) -> bool {
        self.bytes = self.bytes.saturating_add(output as u64);
        self.has_memory()
    }

    fn has_memory(&mut self) -> bool {
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
