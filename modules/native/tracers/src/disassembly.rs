//! `evmdisTracer`: the stack before and after each instruction, for disassemblers.

use alloy_primitives::{Bytes, U256};
use revm::bytecode::opcode::{CALL, CALLCODE, DELEGATECALL, JUMPDEST, RETURN, STATICCALL, STOP};
use tenon_api::messages::{DisassembledCall, DisassembledFrame, DisassembledOperation, TraceResult};
use tenon_execution_interface::StateError;
use tenon_traces::{Accounts, Run, Step, StepEnd, Tracer, TracerFailure};

/// Keeps the instructions of every frame; a call refers to the frame that it opened once that has returned.
pub(super) struct DisassemblyTracer {
    /// All frames, in the order in which they were opened.
    frames: Vec<DisassembledFrame>,
    /// Open frames, outermost first.
    open: Vec<OpenFrame>,
    /// The entry that the current instruction will add if it is not refused.
    running: Option<Running>,
    held: usize,
}

/// The current instruction.
enum Running {
    /// In the newest frame.
    InNewestFrame {
        operation: Box<DisassembledOperation>,
        /// Stack results of the previous instruction.
        results_before: Vec<U256>,
        /// Data that it returns, if it is RETURN or STOP.
        returned: Option<Bytes>,
    },
    /// At this depth, in a caller of the newest frame: the deeper frames have returned. The instruction itself is not
    /// listed, as in the reference.
    InCaller(usize),
}

struct OpenFrame {
    /// Its index.
    place: usize,
    /// The calling instruction in its caller; `None` for the outermost.
    opener: Option<usize>,
}

impl DisassemblyTracer {
    pub(super) fn new() -> Self {
        let open = vec![OpenFrame { place: 0, opener: None }];
        Self { frames: vec![DisassembledFrame::default()], open, running: None, held: 0 }
    }

    fn operation(step: &Step<'_>) -> DisassembledOperation {
        let operands = match step.opcode {
            CALL | CALLCODE => Some((3, Some(step.peek(2)))),
            DELEGATECALL | STATICCALL => Some((2, None)),
            _ => None,
        };
        let call = operands.map(|(at, value)| {
            let input = Bytes::copy_from_slice(step.memory_slice(step.peek(at), step.peek(at + 1)));
            Box::new(DisassembledCall { gas: step.peek(0), to: step.peek(1), value, input, frame: None })
        });
        let pc = (step.opcode == JUMPDEST).then_some(step.pc as u64);
        let depth = u32::try_from(step.depth).unwrap_or(u32::MAX);
        DisassembledOperation { opcode: step.opcode, depth, results: Vec::new(), call, pc }
    }

    /// Enters returned frames in the calls that opened them.
    fn close(&mut self, depth: usize) {
        while self.open.len() > depth.max(1) {
            let Some(OpenFrame { place, opener }) = self.open.pop() else { return };
            let caller = self.open.last().and_then(|caller| self.frames.get_mut(caller.place));
            let operation = caller.and_then(|caller| caller.operations.get_mut(opener?));
            if let Some(call) = operation.and_then(|operation| operation.call.as_mut()) {
                call.frame = u32::try_from(place).ok();
            }
        }
    }

    /// The newest open frame.
    fn newest(&self) -> Option<&DisassembledFrame> {
        self.frames.get(self.open.last()?.place)
    }
}

/// The number of stack items that the reference's script takes for the results of an instruction. Zero for instructions
/// newer than the script, and for DELEGATECALL and STATICCALL.
fn results_on_stack(opcode: u8) -> usize {
    match opcode {
        DELEGATECALL | STATICCALL => 0,
        0x01..=0x0b | 0x10..=0x1a | 0x20 | 0x30..=0x36 | 0x38 | 0x3a | 0x3b | 0x40..=0x45 => 1,
        0x51 | 0x54 | 0x58..=0x5a | 0x60..=0x7f | 0xf0..=0xf2 => 1,
        duplicate @ 0x80..=0x8f => usize::from(duplicate) - 0x7e,
        exchange @ 0x90..=0x9f => usize::from(exchange) - 0x8e,
        _ => 0,
    }
}

impl Tracer for DisassemblyTracer {
    fn step(&mut self, step: &Step<'_>, _accounts: &mut dyn Accounts) -> Result<(), StateError> {
        let Some(frame) = self.newest().filter(|_| step.depth == self.open.len()) else {
            self.running = Some(Running::InCaller(step.depth));
            return Ok(());
        };
        let count = frame.operations.last().map_or(0, |operation| results_on_stack(operation.opcode));
        let returned = match step.opcode {
            RETURN => Some(Bytes::copy_from_slice(step.memory_slice(step.peek(0), step.peek(1)))),
            STOP => Some(Bytes::new()),
            _ => None,
        };
        let results_before = (0..count).map(|place| step.peek(place)).collect();
        self.running =
            Some(Running::InNewestFrame { operation: Box::new(Self::operation(step)), results_before, returned });
        Ok(())
    }

    fn step_end(&mut self, end: StepEnd<'_>) {
        let running = self.running.take();
        let Some(frame) = self.open.last().and_then(|open| self.frames.get_mut(open.place)) else { return };
        if let StepEnd::Refused { error, .. } = end {
            frame.error = Some(error.to_owned());
            return;
        }
        match running {
            None => {}
            Some(Running::InCaller(depth)) => self.close(depth),
            Some(Running::InNewestFrame { operation, results_before, returned }) => {
                self.held += 200 + 100 * results_before.len();
                self.held += operation.call.as_ref().map_or(0, |call| 16 * call.input.len());
                if let Some(before) = frame.operations.last_mut() {
                    before.results.extend(results_before);
                }
                frame.returned = returned.or(frame.returned.take());
                let opener = operation.call.is_some().then_some(frame.operations.len());
                frame.operations.push(*operation);
                if opener.is_some() {
                    self.open.push(OpenFrame { place: self.frames.len(), opener });
                    self.frames.push(DisassembledFrame::default());
                }
            }
        }
    }

    fn held_bytes(&self) -> usize {
        self.held
    }

    fn result(&mut self, _run: &Run<'_>, _accounts: &mut dyn Accounts) -> Result<TraceResult, TracerFailure> {
        self.close(1);
        Ok(TraceResult::Disassembly(std::mem::take(&mut self.frames)))
    }
}
