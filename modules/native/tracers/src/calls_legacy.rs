//! `callTracerLegacy`: frames reconstructed from instructions, like in tracers before frame events existed. Calls to
//! precompiled contracts are left out, and the cause of a failed call is unknown.

use std::time::Instant;

use alloy_primitives::{Address, Bytes, U256};
use revm::bytecode::opcode::{CALL, CALLCODE, CREATE, CREATE2, DELEGATECALL, REVERT, SELFDESTRUCT, STATICCALL};
use tenon_api::messages::{FrameKind, LegacyCallFrame, LegacyCalls, NoTraceResult, TraceResult};
use tenon_execution_interface::{MovedPrecompiles, StateError, saturated, widen};
use tenon_traces::{Accounts, FrameStart, REVERTED, Run, Step, StepEnd, Tracer, TracerFailure};

/// Memory of a listed call, bytes. The list doubles when it is full, and holds both sizes meanwhile.
const FRAME_BYTES: usize = 3 * size_of::<LegacyCallFrame>();

/// The text recorded for a call without output and without a known reason. It is data of the frame, like its output.
const UNEXPLAINED: &str = "internal failure";

/// Tracks calls by depth: another instruction of the caller means that the call has returned.
pub(super) struct LegacyCallTracer {
    precompiles: MovedPrecompiles,
    /// All calls, in the order in which they began; the outermost comes first. Those of open calls are incomplete.
    frames: Vec<LegacyCallFrame>,
    /// Open calls, outermost first.
    calls: Vec<Call>,
    /// Whether the previous instruction opened a call.
    has_descended: bool,
    /// The effect of the current instruction, if it is not refused.
    running: Option<Running>,
    began: Instant,
    held: usize,
}

/// The effect of an instruction.
enum Running {
    /// Opens a call.
    Call(Box<Call>),
    /// Destroys its contract; contains the corresponding frame.
    Destruction(Box<LegacyCallFrame>),
    /// Any other effect.
    Plain {
        /// Initial gas of the newest call, if this is its first instruction.
        first_gas: Option<u64>,
        is_revert: bool,
        /// Result of the newest call, if this instruction belongs to its caller again.
        returned: Option<Returned>,
    },
}

/// Result of a call, as visible to its caller.
struct Returned {
    /// Zero if the call failed.
    result: U256,
    gas: u64,
    output: Bytes,
}

/// An open call.
#[derive(Default)]
struct Call {
    /// Place of its frame in the list.
    place: usize,
    frame: LegacyCallFrame,
    /// Gas of the caller before the call, and the cost of the instruction.
    gas_before: u64,
    cost: u64,
    /// Output position in the caller's memory.
    output_at: (U256, U256),
}

impl LegacyCallTracer {
    pub(super) fn new(precompiles: MovedPrecompiles) -> Self {
        Self {
            precompiles,
            frames: vec![LegacyCallFrame::default()],
            calls: vec![Call::default()],
            has_descended: false,
            running: None,
            began: Instant::now(),
            held: 0,
        }
    }

    fn opening(&self, step: &Step<'_>, accounts: &mut dyn Accounts) -> Result<Option<Running>, StateError> {
        let from = step.contract;
        let copied = |offset, length| Bytes::copy_from_slice(step.memory_slice(offset, length));
        Ok(match step.opcode {
            CREATE | CREATE2 => Some(Running::Call(Box::new(Call {
                frame: LegacyCallFrame {
                    kind: Some(if step.opcode == CREATE { FrameKind::Create } else { FrameKind::Create2 }),
                    from,
                    input: Some(copied(step.peek(1), step.peek(2))),
                    value: Some(widen(step.peek(0))),
                    ..LegacyCallFrame::default()
                },
                gas_before: step.gas,
                ..Call::default()
            }))),
            SELFDESTRUCT => {
                let (to, balance) = (Address::from_word(step.peek(0).into()), accounts.balance(from)?);
                Some(Running::Destruction(Box::new(LegacyCallFrame {
                    kind: Some(FrameKind::SelfDestruct),
                    from,
                    to: Some(to),
                    value: Some(balance),
                    ..LegacyCallFrame::default()
                })))
            }
            CALL | CALLCODE | DELEGATECALL | STATICCALL => {
                let to = Address::from_word(step.peek(1).into());
                if self.precompiles.is_precompile(to) {
                    return Ok(None);
                }
                let (kind, values) = match step.opcode {
                    CALL => (FrameKind::Call, 1),
                    CALLCODE => (FrameKind::CallCode, 1),
                    DELEGATECALL => (FrameKind::DelegateCall, 0),
                    _ => (FrameKind::StaticCall, 0),
                };
                Some(Running::Call(Box::new(Call {
                    frame: LegacyCallFrame {
                        kind: Some(kind),
                        from,
                        to: Some(to),
                        input: Some(copied(step.peek(2 + values), step.peek(3 + values))),
                        value: (values == 1).then(|| widen(step.peek(2))),
                        ..LegacyCallFrame::default()
                    },
                    gas_before: step.gas,
                    output_at: (step.peek(4 + values), step.peek(5 + values)),
                    ..Call::default()
                })))
            }
            _ => None,
        })
    }

    /// The result of the newest call, from its caller's view.
    fn returned(&self, step: &Step<'_>, accounts: &mut dyn Accounts) -> Result<Option<Returned>, StateError> {
        let Some(call) = self.calls.last().filter(|_| step.depth + 1 == self.calls.len()) else { return Ok(None) };
        let result = step.peek(0);
        let output = match call.frame.kind {
            _ if result.is_zero() => Bytes::new(),
            Some(kind) if kind.is_creation() => accounts.code(Address::from_word(result.into()))?,
            _ => Bytes::copy_from_slice(step.memory_slice(call.output_at.0, call.output_at.1)),
        };
        Ok(Some(Returned { result, gas: step.gas, output }))
    }

    /// A call begins.
    fn open(&mut self, mut call: Call) {
        call.place = self.frames.len();
        call.frame.depth = self.depth();
        self.held += call.frame.input.as_ref().map_or(0, |input| input.len()) + FRAME_BYTES;
        self.frames.push(LegacyCallFrame::default());
        self.calls.push(call);
    }

    /// Depth of a call that begins.
    fn depth(&self) -> u32 {
        u32::try_from(self.calls.len()).unwrap_or(u32::MAX)
    }

    /// Ends the newest call: its caller continues.
    fn end_newest(&mut self, returned: Returned) {
        let Some(Call { place, mut frame, gas_before, cost, .. }) = self.calls.pop() else { return };
        let left = i128::from(gas_before) - i128::from(cost) - i128::from(returned.gas);
        let is_creation = frame.kind.is_some_and(FrameKind::is_creation);
        frame.gas_used = if is_creation { Some(left) } else { frame.gas.map(|gas| left + i128::from(gas)) };
        if returned.result.is_zero() {
            frame.error.get_or_insert_with(|| UNEXPLAINED.to_owned());
        } else {
            frame.output = Some(returned.output);
            if is_creation {
                frame.to = Some(Address::from_word(returned.result.into()));
            }
        }
        self.keep(place, frame);
    }

    /// Ends the newest call, which failed and used all its gas.
    fn failed(&mut self, error: &str) {
        if self.calls.last().is_none_or(|call| call.frame.error.is_some()) {
            return;
        }
        let Some(mut call) = self.calls.pop() else { return };
        call.frame.error = Some(error.to_owned());
        call.frame.gas_used = call.frame.gas.map(i128::from);
        if self.calls.is_empty() {
            self.calls.push(call);
        } else {
            self.keep(call.place, call.frame);
        }
    }

    /// Lists a call that has ended.
    fn keep(&mut self, place: usize, frame: LegacyCallFrame) {
        self.held += frame.output.as_ref().map_or(0, |output| output.len());
        if let Some(listed) = self.frames.get_mut(place) {
            *listed = frame;
        }
    }
}

impl Tracer for LegacyCallTracer {
    fn start(&mut self, _frame: &FrameStart) {
        self.began = Instant::now();
    }

    fn step(&mut self, step: &Step<'_>, accounts: &mut dyn Accounts) -> Result<(), StateError> {
        self.running = self.opening(step, accounts)?;
        let is_call = matches!(step.opcode, CALL | CALLCODE | DELEGATECALL | STATICCALL);
        if self.running.is_some() || is_call {
            return Ok(());
        }
        let is_first = self.has_descended && step.depth >= self.calls.len();
        let is_revert = step.opcode == REVERT;
        let returned = if is_revert { None } else { self.returned(step, accounts)? };
        self.running = Some(Running::Plain { first_gas: is_first.then_some(step.gas), is_revert, returned });
        Ok(())
    }

    fn step_end(&mut self, end: StepEnd<'_>) {
        let running = self.running.take();
        let (cost, error) = match end {
            StepEnd::Refused { error, .. } => return self.failed(error),
            StepEnd::Ran { cost } => (cost, None),
            StepEnd::Failed { cost, error } => (cost, Some(error)),
        };
        match running {
            Some(Running::Call(mut call)) => {
                call.cost = cost;
                self.open(*call);
                self.has_descended = true;
            }
            Some(Running::Destruction(frame)) => {
                self.held += FRAME_BYTES;
                self.frames.push(LegacyCallFrame { depth: self.depth(), ..*frame });
            }
            Some(Running::Plain { first_gas, is_revert, returned }) => {
                self.has_descended = false;
                if let Some(call) = self.calls.last_mut() {
                    // The frame's actual gas, which the caller's instruction does not show.
                    call.frame.gas = first_gas.or(call.frame.gas);
                    if is_revert {
                        call.frame.error = Some(REVERTED.to_owned());
                    }
                }
                if let Some(returned) = returned {
                    self.end_newest(returned);
                }
            }
            None => {}
        }
        if let Some(error) = error {
            self.failed(error);
        }
    }

    fn held_bytes(&self) -> usize {
        self.held
    }

    fn result(&mut self, run: &Run<'_>, _accounts: &mut dyn Accounts) -> Result<TraceResult, TracerFailure> {
        let Some((start, end)) = run.frame else {
            return Err(TracerFailure::NoResult(NoTraceResult::NoFrame));
        };
        // A call that has not ended is not listed, and its inner calls are not either.
        if let Some(open) = self.calls.get(1) {
            self.frames.truncate(open.place);
        }
        let error = self.calls.first().and_then(|call| call.frame.error.clone()).or_else(|| end.error.clone());
        let shows_output = error.as_ref().is_none_or(|error| error == REVERTED && !end.output.is_empty());
        let mut frames = std::mem::take(&mut self.frames);
        if let Some(outermost) = frames.first_mut() {
            *outermost = LegacyCallFrame {
                depth: 0,
                kind: Some(start.kind),
                from: start.from,
                to: Some(start.to),
                input: Some(start.input.clone()),
                value: start.value.map(|value| widen(saturated(value))),
                gas: Some(start.gas),
                gas_used: Some(end.gas_used.into()),
                output: shows_output.then(|| end.output.clone()),
                error,
            };
        }
        Ok(TraceResult::LegacyCalls(LegacyCalls { frames, time: self.began.elapsed() }))
    }
}
