//! Size of a trace's recording, and the memory shared by all recordings.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use alloy_rpc_types_trace::geth::GethDefaultTracingOptions;
use revm::{
    bytecode::opcode::{KECCAK256, OpCode},
    interpreter::{Interpreter, interpreter_types::Jumps},
};
use revm_inspectors::tracing::types::{CallTraceNode, CallTraceStep, TraceMemberOrder};
use tenon_bus::{ClientMemory, MemoryBudget, MemoryUse, Origin, Reservation};

/// Minimum memory of a recorded instruction, bytes.
const STEP_BYTES: u64 = (size_of::<CallTraceStep>() + size_of::<TraceMemberOrder>()) as u64;

/// Memory of an instruction's pushed values, a separate list, bytes.
const PUSHED_BYTES: u64 = 32;

/// Minimum memory of a recorded call, bytes.
const CALL_BYTES: u64 = size_of::<CallTraceNode>() as u64;

/// Gas of KECCAK256 for each word.
const GAS_PER_HASHED_WORD: u64 = 6;

/// Increment of a recording's share of the common memory, bytes.
const SHARE_STEP: u64 = 64 << 10;

/// Memory that the trace of a block keeps from one transaction to the next, bytes: reserving and releasing it costs as
/// much as tracing a few calls.
const KEPT_SHARE: u64 = 4 * SHARE_STEP;

/// The memory that all traces of this node share. Clones share it.
#[derive(Clone)]
pub struct RecordingMemory {
    free: Arc<AtomicU64>,
    budget: MemoryBudget,
}

impl RecordingMemory {
    /// A total limit for all traces, which are also charged to their clients.
    pub fn new(bytes: u64, budget: MemoryBudget) -> Self {
        Self { free: Arc::new(AtomicU64::new(bytes)), budget }
    }

    /// The memory of one trace.
    pub fn of(&self, origin: Origin) -> TraceMemory {
        TraceMemory { free: Arc::clone(&self.free), client: self.budget.client(origin.client) }
    }
}

/// Memory source of one trace: the total for all traces, and the client's share of the node's memory.
#[derive(Clone)]
pub struct TraceMemory {
    free: Arc<AtomicU64>,
    client: ClientMemory,
}

impl TraceMemory {
    /// The client's share of the node's memory.
    pub(crate) fn client(&self) -> &ClientMemory {
        &self.client
    }
}

/// Memory reserved by a trace, released on drop.
pub struct TraceShare {
    memory: TraceMemory,
    taken: u64,
    reservation: Option<Reservation>,
}

impl TraceShare {
    /// An empty share.
    pub fn new(memory: &TraceMemory) -> Self {
        Self { memory: memory.clone(), taken: 0, reservation: None }
    }

    /// Reserves memory for `bytes`; false if there is not enough.
    pub fn hold(&mut self, bytes: u64) -> bool {
        if bytes <= self.taken {
            return true;
        }
        let Some(wanted) = bytes.checked_next_multiple_of(SHARE_STEP) else { return false };
        let missing = wanted - self.taken;
        let take = |free: u64| free.checked_sub(missing);
        if self.memory.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            return false;
        }
        let size = usize::try_from(wanted).unwrap_or(usize::MAX);
        let is_granted = match &mut self.reservation {
            Some(reservation) => reservation.resize(size).is_ok(),
            None => {
                self.reservation = self.memory.client.reserve(MemoryUse::Traces, size).ok();
                self.reservation.is_some()
            }
        };
        if is_granted {
            self.taken = wanted;
        } else {
            self.memory.free.fetch_add(missing, Ordering::Relaxed);
        }
        is_granted
    }
}

impl TraceShare {
    /// Releases what exceeds [`KEPT_SHARE`].
    fn release_most(&mut self) {
        if self.taken <= KEPT_SHARE {
            return;
        }
        if let Some(reservation) = &mut self.reservation {
            reservation.shrink(usize::try_from(KEPT_SHARE).unwrap_or(usize::MAX));
        }
        self.memory.free.fetch_add(self.taken - KEPT_SHARE, Ordering::Relaxed);
        self.taken = KEPT_SHARE;
    }
}

impl Drop for TraceShare {
    fn drop(&mut self) {
        self.memory.free.fetch_add(self.taken, Ordering::Relaxed);
    }
}

/// Memory of a growing buffer. From three quarters full on, includes its next allocation of twice the size.
pub const fn growing_bytes(length: usize, capacity: usize) -> u64 {
    let bytes = capacity as u64;
    if length > capacity / 4 * 3 { bytes.saturating_mul(3) } else { bytes }
}

/// The allocator's size for a request: sizes are multiples of a quarter of a power of two.
const fn allocated(bytes: u64) -> u64 {
    if bytes <= 128 {
        return bytes.next_multiple_of(16);
    }
    let step = bytes.next_power_of_two() / 8;
    // Not by division, which this would cost at every instruction.
    (bytes + (step - 1)) & !(step - 1)
}

/// Length of a list that doubles when it is full.
#[derive(Clone, Copy, Default)]
struct Growth {
    items: u64,
    capacity: u64,
}

impl Growth {
    /// Adds an item. Returns the sizes allocated and released afterwards.
    fn push(&mut self) -> (u64, u64) {
        self.items += 1;
        if self.items <= self.capacity {
            return (0, 0);
        }
        let before = self.capacity;
        self.capacity = (2 * before).max(4);
        (self.capacity, before)
    }
}

/// Counts the recording of one traced transaction. Gas does not bound it: a call with a megabyte of input costs hardly
/// more than one without input, but a tracer copies it.
pub(crate) struct Recording {
    steps: u64,
    bytes: u64,
    max_steps: u64,
    share: TraceShare,
    /// The step lists of the open calls, and the list of all calls.
    open_calls: Vec<Growth>,
    calls: Growth,
    /// `None` for tracers that record only calls.
    of_steps: Option<StepOptions>,
    /// Whether the current step is recorded: its end must then be recorded too.
    is_step_recorded: bool,
    /// Whether the memory may differ from that of the previous step, which is then not shared.
    is_memory_new: bool,
}

/// What a tracer records of each step.
pub(crate) struct StepOptions {
    /// Number of steps; later ones are executed but not recorded.
    steps: u64,
    with_stack: bool,
    memory: StepMemory,
    with_return_data: bool,
}

/// What a tracer records of the memory of each step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepMemory {
    None,
    /// A copy for each step.
    Copied,
    /// A copy that the next steps share until an instruction may change the memory, and a copy of what KECCAK256 hashes.
    SharedWithPreimages,
}

impl StepOptions {
    /// Of a struct logger.
    pub(crate) fn of_struct_log(options: &GethDefaultTracingOptions) -> Self {
        Self {
            steps: options.limit.filter(|limit| *limit > 0).unwrap_or(u64::MAX),
            with_stack: options.is_stack_enabled(),
            memory: if options.is_memory_enabled() { StepMemory::Copied } else { StepMemory::None },
            with_return_data: options.is_return_data_enabled(),
        }
    }

    /// Of `erc7562Tracer`. The library keeps all steps until the end, and then finds the answer in them.
    pub(crate) const fn of_validation() -> Self {
        Self { steps: u64::MAX, with_stack: true, memory: StepMemory::SharedWithPreimages, with_return_data: false }
    }
}

impl Recording {
    /// An empty recording; `of_steps` is `None` for tracers that record only calls.
    pub(crate) fn new(of_steps: Option<StepOptions>, max_steps: u64, memory: &TraceMemory) -> Self {
        Self {
            steps: 0,
            bytes: 0,
            max_steps,
            share: TraceShare::new(memory),
            open_calls: Vec::new(),
            calls: Growth::default(),
            of_steps,
            is_step_recorded: true,
            is_memory_new: true,
        }
    }

    /// An empty recording again, after the previous one was dropped.
    pub(crate) fn restart(&mut self, of_steps: Option<StepOptions>, max_steps: u64) {
        (self.steps, self.bytes, self.max_steps) = (0, 0, max_steps);
        self.share.release_most();
        self.open_calls.clear();
        self.calls = Growth::default();
        self.of_steps = of_steps;
        (self.is_step_recorded, self.is_memory_new) = (true, true);
    }

    /// Returns whether the current step goes to the tracer.
    pub(crate) const fn is_step_recorded(&self) -> bool {
        self.is_step_recorded
    }

    /// Counts the next step; false if it exceeds the limit.
    pub(crate) fn count_step(&mut self, interpreter: &Interpreter) -> bool {
        let Some(options) = &self.of_steps else { return true };
        self.is_step_recorded = self.steps < options.steps;
        if !self.is_step_recorded {
            return true;
        }
        self.steps += 1;
        if options.with_stack {
            // Includes the pushed values.
            self.bytes += allocated(32 * interpreter.stack.len() as u64) + PUSHED_BYTES;
        }
        match options.memory {
            StepMemory::None => {}
            StepMemory::Copied => self.bytes += allocated(interpreter.memory.len() as u64),
            StepMemory::SharedWithPreimages => {
                if self.is_memory_new {
                    self.bytes += allocated(interpreter.memory.len() as u64);
                }
                let opcode = interpreter.bytecode.opcode();
                self.is_memory_new = OpCode::new(opcode).is_none_or(|opcode| opcode.modifies_memory());
                if opcode == KECCAK256 {
                    self.bytes = self.bytes.saturating_add(preimage_bytes(interpreter));
                }
            }
        }
        if options.with_return_data {
            self.bytes += allocated(interpreter.return_data.0.len() as u64);
        }
        let (added, freed) = self.open_calls.last_mut().map_or((1, 0), Growth::push);
        self.grow(added, freed, STEP_BYTES) && self.steps <= self.max_steps
    }

    /// Counts a list that is reallocated: meanwhile it takes both sizes.
    fn grow(&mut self, added: u64, freed: u64, size: u64) -> bool {
        self.bytes = self.bytes.saturating_add(added.saturating_mul(size));
        let has_memory = self.has_memory();
        self.bytes = self.bytes.saturating_sub(freed.saturating_mul(size));
        has_memory
    }

    /// Bytes recorded.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts the memory reported by a tracer; false if it exceeds the limit.
    pub(crate) fn count_held(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.max(bytes as u64);
        self.has_memory()
    }

    /// Counts a call with this much input; false if it exceeds the limit.
    pub(crate) fn count_call(&mut self, input: usize) -> bool {
        self.bytes = self.bytes.saturating_add(allocated(input as u64));
        self.open_calls.push(Growth::default());
        self.is_memory_new = true;
        let (added, freed) = self.calls.push();
        self.grow(added, freed, CALL_BYTES)
    }

    /// Counts a call's output; false if it exceeds the limit.
    pub(crate) fn count_output(&mut self, output: usize) -> bool {
        self.open_calls.pop();
        self.is_memory_new = true;
        self.bytes = self.bytes.saturating_add(allocated(output as u64));
        self.has_memory()
    }

    fn has_memory(&mut self) -> bool {
        self.share.hold(self.bytes)
    }
}

/// Memory of the copy of what a KECCAK256 hashes, bytes. The library copies as much as the stack says even if the gas
/// does not suffice for the memory, but not if it does not suffice for the hash.
fn preimage_bytes(interpreter: &Interpreter) -> u64 {
    let payable = interpreter.gas.remaining() / GAS_PER_HASHED_WORD * 32;
    let length = interpreter.stack.peek(1).map_or(0, |length| length.saturating_to::<u64>());
    if length > payable { 0 } else { allocated(length) }
}

#[cfg(test)]
mod tests {
    use tenon_bus::{ClientId, MemoryLimits};

    use super::*;

    const MEBIBYTE: u64 = 1 << 20;

    fn memory(all_traces: u64, client: usize) -> (MemoryBudget, TraceMemory) {
        let budget = MemoryBudget::new(MemoryLimits { total: usize::MAX, client });
        let memory = RecordingMemory::new(all_traces, budget.clone()).of(Origin::default());
        (budget, memory)
    }

    #[test]
    fn a_trace_is_charged_to_its_client_and_to_the_total() {
        let (budget, memory) = memory(10 * MEBIBYTE, 8 << 20);
        let client = budget.client(ClientId::INSIDE);
        let mut first = TraceShare::new(&memory);

        assert!(first.hold(1) && first.hold(5 * MEBIBYTE));
        assert_eq!(client.held(), 5 << 20);
        assert!(!first.hold(9 * MEBIBYTE), "beyond the client's share");
        assert_eq!(client.held(), 5 << 20, "what it had");
        let mut second = TraceShare::new(&memory);
        assert!(!second.hold(6 * MEBIBYTE), "beyond what all traces share");
        assert!(second.hold(3 * MEBIBYTE));

        drop((first, second));
        assert_eq!((client.held(), memory.free.load(Ordering::Relaxed)), (0, 10 * MEBIBYTE));
    }

    #[test]
    fn a_recording_that_starts_again_keeps_little_of_its_memory() {
        let (budget, memory) = memory(10 * MEBIBYTE, 8 << 20);
        let client = budget.client(ClientId::INSIDE);
        let mut recording = Recording::new(None, u64::MAX, &memory);

        assert!(recording.count_held(5 << 20));
        recording.restart(None, u64::MAX);
        assert_eq!((client.held() as u64, recording.bytes()), (KEPT_SHARE, 0));
        assert_eq!(memory.free.load(Ordering::Relaxed), 10 * MEBIBYTE - KEPT_SHARE);
        assert!(recording.count_held(1 << 20));

        drop(recording);
        assert_eq!((client.held(), memory.free.load(Ordering::Relaxed)), (0, 10 * MEBIBYTE));
    }

    #[test]
    fn lists_count_their_allocations_while_they_grow() {
        let mut recorded: Vec<[u8; 16]> = Vec::new();
        let mut growth = Growth::default();
        for _ in 0..10_000 {
            let before = recorded.capacity();
            recorded.push([0; 16]);
            let (added, freed) = growth.push();

            let moved = recorded.capacity() != before;
            assert_eq!(growth.capacity, recorded.capacity() as u64);
            assert_eq!((added, freed), if moved { (recorded.capacity() as u64, before as u64) } else { (0, 0) });
        }
    }

    #[test]
    fn a_buffer_counts_its_reallocation_in_advance() {
        let mut text = String::with_capacity(100);
        let mut counted = 0;
        for _ in 0..10_000 {
            let (length, capacity) = (text.len(), text.capacity());
            counted = counted.max(growing_bytes(length, capacity));
            text.push_str("0123456789");
            if text.capacity() != capacity {
                assert!(counted >= (capacity + text.capacity()) as u64, "{length} {capacity}");
            }
        }
    }

    #[test]
    fn sizes_are_rounded_like_the_allocators() {
        for (asked, given) in [(0, 0), (1, 16), (128, 128), (129, 160), (1025, 1280), (4096, 4096), (4097, 5120)] {
            assert_eq!(allocated(asked), given, "{asked}");
        }
    }
}
