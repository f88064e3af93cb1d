//! `evmdisTracer`: the stack before and after each instruction, for disassemblers.

use alloy_primitives::U256;
use revm::bytecode::opcode::{CALL, CALLCODE, DELEGATECALL, JUMPDEST, PUSH0, PUSH32, RETURN, STATICCALL, STOP};
use tenon_api::messages::TraceResult;

use super::{
    accounts::Accounts,
    tracer::{Run, Step, StepEnd, Tracer, TracerFailure},
};
use crate::block::StateError;

/// Keeps the instructions of every open frame; a call contains those of the frame that it opened.
pub(super) struct DisassemblyTracer {
    /// Open frames, outermost first.
    frames: Vec<Frame>,
    /// The entry that the current instruction will add if it is not refused.
    running: Option<Running>,
    held: usize,
}

/// The current instruction.
enum Running {
    /// In the newest frame.
    AtHome {
        operation: Box<Operation>,
        /// Stack results of the previous instruction.
        results_before: Vec<U256>,
        /// Its return value.
        returned: Option<Vec<u8>>,
    },
    /// In a caller: frames above this depth have returned. It is not listed itself, as in the reference.
    Elsewhere(usize),
}

#[derive(Default)]
struct Frame {
    operations: Vec<Operation>,
    returned: Option<Vec<u8>>,
    error: Option<String>,
    /// The calling instruction of this frame; `None` for the outermost.
    opener: Option<usize>,
}

struct Operation {
    opcode: u8,
    depth: usize,
    /// Its results on the stack, known at the next instruction.
    results: Vec<U256>,
    call: Option<OpenedCall>,
    pc: Option<usize>,
}

/// Operands of a call.
struct OpenedCall {
    /// The name instead of the number, for newer call instructions.
    name: Option<&'static str>,
    gas: U256,
    to: U256,
    value: Option<U256>,
    input: Vec<u8>,
    /// The frame, once it has returned.
    frame: Option<Frame>,
}

impl DisassemblyTracer {
    pub(super) fn new() -> Self {
        Self { frames: vec![Frame::default()], running: None, held: 0 }
    }

    fn operation(step: &Step<'_>) -> Operation {
        let input = |at: usize| step.memory_slice(step.peek(at), step.peek(at + 1)).to_vec();
        let call = match step.opcode {
            CALL | CALLCODE => Some(OpenedCall {
                name: None,
                gas: step.peek(0),
                to: step.peek(1),
                value: Some(step.peek(2)),
                input: input(3),
                frame: None,
            }),
            DELEGATECALL | STATICCALL => Some(OpenedCall {
                name: Some(if step.opcode == STATICCALL { "STATICCALL" } else { "DELEGATECALL" }),
                gas: step.peek(0),
                to: step.peek(1),
                value: None,
                input: input(2),
                frame: None,
            }),
            _ => None,
        };
        let pc = (step.opcode == JUMPDEST).then_some(step.pc);
        Operation { opcode: step.opcode, depth: step.depth, results: Vec::new(), call, pc }
    }

    /// Moves returned frames into the calls that opened them.
    fn close(&mut self, depth: usize) {
        while self.frames.len() > depth.max(1) {
            let Some(frame) = self.frames.pop() else { return };
            let opener = frame.opener;
            let caller = self.frames.last_mut().and_then(|caller| caller.operations.get_mut(opener?));
            if let Some(call) = caller.and_then(|operation| operation.call.as_mut()) {
                call.frame = Some(frame);
            }
        }
    }
}

impl Tracer for DisassemblyTracer {
    fn step(&mut self, step: &Step<'_>, _accounts: &mut dyn Accounts) -> Result<(), StateError> {
        let Some(frame) = self.frames.last().filter(|_| step.depth == self.frames.len()) else {
            self.running = Some(Running::Elsewhere(step.depth));
            return Ok(());
        };
        let count = frame.operations.last().map_or(0, Operation::results_on_stack);
        let returned = match step.opcode {
            RETURN => Some(step.memory_slice(step.peek(0), step.peek(1)).to_vec()),
            STOP => Some(Vec::new()),
            _ => None,
        };
        let results_before = (0..count).map(|place| step.peek(place)).collect();
        self.running = Some(Running::AtHome { operation: Box::new(Self::operation(step)), results_before, returned });
        Ok(())
    }

    fn step_end(&mut self, end: StepEnd<'_>) {
        let running = self.running.take();
        let Some(frame) = self.frames.last_mut() else { return };
        if let StepEnd::Refused { error, .. } = end {
            frame.error = Some(error.to_owned());
            return;
        }
        match running {
            None => {}
            Some(Running::Elsewhere(depth)) => self.close(depth),
            Some(Running::AtHome { operation, results_before, returned }) => {
                self.held += 200 + 100 * results_before.len();
                self.held += operation.call.as_ref().map_or(0, |call| 16 * call.input.len());
                if let Some(before) = frame.operations.last_mut() {
                    before.results.extend(results_before);
                }
                frame.returned = returned.or(frame.returned.take());
                let opener = operation.call.is_some().then_some(frame.operations.len());
                frame.operations.push(*operation);
                if opener.is_some() {
                    self.frames.push(Frame { opener, ..Frame::default() });
                }
            }
        }
    }

    fn held_bytes(&self) -> usize {
        self.held
    }

    fn result(&mut self, _run: &Run<'_>, _accounts: &mut dyn Accounts) -> Result<TraceResult, TracerFailure> {
        self.close(1);
        Ok(TraceResult::Script(self.frames.first().map_or_else(|| "[]".to_owned(), Frame::text)))
    }
}

impl Frame {
    fn text(&self) -> String {
        let operations: Vec<String> = self.operations.iter().map(Operation::text).collect();
        format!("[{}]", operations.join(","))
    }
}

impl Operation {
    /// The number of items that the reference's script takes for results. It does not know newer instructions, and
    /// newer calls only by name.
    fn results_on_stack(&self) -> usize {
        match self.opcode {
            DELEGATECALL | STATICCALL => 0,
            0x01..=0x0b | 0x10..=0x1a | 0x20 | 0x30..=0x36 | 0x38 | 0x3a | 0x3b | 0x40..=0x45 => 1,
            0x51 | 0x54 | 0x58..=0x5a | 0x60..=0x7f | 0xf0..=0xf2 => 1,
            duplicate @ 0x80..=0x8f => usize::from(duplicate) - 0x7e,
            exchange @ 0x90..=0x9f => usize::from(exchange) - 0x8e,
            _ => 0,
        }
    }

    fn text(&self) -> String {
        let results: Vec<String> = self.results.iter().map(|result| format!("\"{result:x}\"")).collect();
        let name = self.call.as_ref().and_then(|call| call.name).map(|name| format!("\"{name}\""));
        let name = name.unwrap_or_else(|| self.opcode.to_string());
        let mut text = format!("{{\"op\":{name},\"depth\":{},\"result\":[{}]", self.depth, results.join(","));
        if let Some(call) = &self.call {
            text.push_str(&call.text());
        }
        if let Some(pc) = self.pc {
            text.push_str(&format!(",\"pc\":{pc}"));
        }
        if (PUSH0..=PUSH32).contains(&self.opcode) {
            text.push_str(&format!(",\"len\":{}", self.opcode - 0x5e));
        }
        text.push('}');
        text
    }
}

impl OpenedCall {
    fn text(&self) -> String {
        let value = self.value.map(|value| format!(",\"value\":\"{value}\"")).unwrap_or_default();
        let frame = self.frame.as_ref();
        let error = frame.and_then(|frame| frame.error.as_ref());
        let error =
            error.map_or_else(|| "null".to_owned(), |error| serde_json::Value::from(error.as_str()).to_string());
        let returned = frame.and_then(|frame| frame.returned.as_ref());
        let returned = returned.map_or_else(|| "null".to_owned(), |bytes| buffer(bytes));
        let operations = frame.map_or_else(|| "[]".to_owned(), Frame::text);
        format!(
            ",\"gas\":{},\"to\":\"{:x}\"{value},\"input\":{},\"error\":{error},\"return\":{returned},\"ops\":{operations}",
            script_number(self.gas),
            self.to,
            buffer(&self.input)
        )
    }
}

/// A number in the script engine's format: floating point.
fn script_number(number: U256) -> String {
    const MIN_WITH_EXPONENT: f64 = 1e21;
    let rounded = f64::from(number);
    if rounded < MIN_WITH_EXPONENT {
        return rounded.to_string();
    }
    format!("{rounded:e}").replace('e', "e+")
}

/// Bytes in the script engine's format of a buffer: an object by position.
fn buffer(bytes: &[u8]) -> String {
    let members: Vec<String> = bytes.iter().enumerate().map(|(at, byte)| format!("\"{at}\":{byte}")).collect();
    format!("{{{}}}", members.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_script_engines_format() {
        let cases = [
            (U256::from(50_000), "50000"),
            (U256::from(1) << 60, "1152921504606847000"),
            (U256::MAX, "1.157920892373162e+77"),
        ];
        for (number, expected) in cases {
            assert_eq!(script_number(number), expected);
        }
    }
}
