//! `callTracerLegacy`: frames reconstructed from instructions, like in tracers before frame events existed. Calls to
//! precompiled contracts are left out, and the cause of a failed call is unknown.

use std::time::Instant;

use alloy_primitives::{Address, Bytes, U256, hex};
use revm::bytecode::opcode::{CALL, CALLCODE, CREATE, CREATE2, DELEGATECALL, REVERT, SELFDESTRUCT, STATICCALL};
use serde_json::Value;
use tenon_api::messages::{FrameKind, TraceResult};

use super::{
    accounts::Accounts,
    tracer::{FrameStart, REVERTED, Run, Step, StepEnd, Tracer, TracerFailure},
};
use crate::{
    block::{MovedPrecompiles, StateError, saturated},
    call::duration_text,
};

/// Text for a call without output and without a known reason.
const UNEXPLAINED: &str = "internal failure";

/// Tracks calls by depth: another instruction of the caller means that the call has returned.
pub(super) struct LegacyCallTracer {
    precompiles: MovedPrecompiles,
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
    /// Destroys its contract; contains the text of the corresponding frame.
    Destruction(String),
    /// Any other effect.
    Plain {
        /// Initial gas of the newest call, if this is its first instruction.
        first_gas: Option<u64>,
        is_revert: bool,
        /// Result of the newest call, if this instruction belongs to its caller again.
        returned: Option<Returned>,
    },
}

/// What a caller finds after a call.
struct Returned {
    /// Zero if the call failed.
    result: U256,
    gas: u64,
    output: Bytes,
}

/// A frame; unknown values are left out of its text.
#[derive(Default)]
struct Call {
    kind: Option<FrameKind>,
    from: Address,
    to: Option<Address>,
    input: Bytes,
    value: Option<U256>,
    /// Gas of the caller before the call, and the cost of the instruction.
    gas_before: u64,
    cost: u64,
    /// Initial gas of the frame, known after its first instruction.
    gas: Option<u64>,
    gas_used: Option<i128>,
    /// Output position in the caller's memory.
    output_at: (U256, U256),
    output: Option<Bytes>,
    error: Option<String>,
    /// Texts of inner frames.
    calls: Vec<String>,
}

impl LegacyCallTracer {
    pub(super) fn new(precompiles: MovedPrecompiles) -> Self {
        Self {
            precompiles,
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
                kind: Some(if step.opcode == CREATE { FrameKind::Create } else { FrameKind::Create2 }),
                from,
                input: copied(step.peek(1), step.peek(2)),
                gas_before: step.gas,
                value: Some(step.peek(0)),
                ..Call::default()
            }))),
            SELFDESTRUCT => {
                let (to, balance) = (Address::from_word(step.peek(0).into()), accounts.balance(from)?);
                Some(Running::Destruction(format!(
                    "{{\"type\":\"SELFDESTRUCT\",\"from\":\"{from:#x}\",\"to\":\"{to:#x}\",\"value\":\"{balance:#x}\"}}"
                )))
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
                    kind: Some(kind),
                    from,
                    to: Some(to),
                    input: copied(step.peek(2 + values), step.peek(3 + values)),
                    gas_before: step.gas,
                    output_at: (step.peek(4 + values), step.peek(5 + values)),
                    value: (values == 1).then(|| step.peek(2)),
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
        let output = match call.kind {
            _ if result.is_zero() => Bytes::new(),
            Some(kind) if kind.is_creation() => accounts.code(Address::from_word(result.into()))?,
            _ => Bytes::copy_from_slice(step.memory_slice(call.output_at.0, call.output_at.1)),
        };
        Ok(Some(Returned { result, gas: step.gas, output }))
    }

    /// Ends the newest call: its caller continues.
    fn end_newest(&mut self, returned: Returned) {
        let Some(mut call) = self.calls.pop() else { return };
        let left = i128::from(call.gas_before) - i128::from(call.cost) - i128::from(returned.gas);
        let is_creation = call.kind.is_some_and(FrameKind::is_creation);
        call.gas_used = if is_creation { Some(left) } else { call.gas.map(|gas| left + i128::from(gas)) };
        if returned.result.is_zero() {
            call.error.get_or_insert_with(|| UNEXPLAINED.to_owned());
        } else {
            call.output = Some(returned.output);
            if is_creation {
                call.to = Some(Address::from_word(returned.result.into()));
            }
        }
        self.keep(&call);
    }

    /// Ends the newest call, which failed and used all its gas.
    fn failed(&mut self, error: &str) {
        if self.calls.last().is_none_or(|call| call.error.is_some()) {
            return;
        }
        let Some(mut call) = self.calls.pop() else { return };
        call.error = Some(error.to_owned());
        call.gas_used = call.gas.map(i128::from);
        if self.calls.is_empty() {
            self.calls.push(call);
        } else {
            self.keep(&call);
        }
    }

    fn keep(&mut self, call: &Call) {
        let text = call.text();
        self.held += text.len();
        if let Some(caller) = self.calls.last_mut() {
            caller.calls.push(text);
        }
    }
}

impl Call {
    fn text(&self) -> String {
        let mut members = Vec::new();
        let mut quoted = |name: &str, value: String| members.push(format!("\"{name}\":\"{value}\""));
        quoted("type", self.kind.map(FrameKind::name).unwrap_or_default().to_owned());
        quoted("from", format!("{:#x}", self.from));
        if let Some(to) = self.to {
            quoted("to", format!("{to:#x}"));
        }
        if let Some(value) = self.value {
            quoted("value", format!("{value:#x}"));
        }
        if let Some(gas) = self.gas {
            quoted("gas", format!("{gas:#x}"));
        }
        if let Some(gas_used) = self.gas_used {
            let sign = if gas_used < 0 { "-" } else { "" };
            quoted("gasUsed", format!("0x{sign}{:x}", gas_used.unsigned_abs()));
        }
        quoted("input", format!("0x{}", hex::encode(&self.input)));
        if let Some(output) = &self.output {
            quoted("output", output.to_string());
        }
        if let Some(error) = &self.error {
            members.push(format!("\"error\":{}", Value::from(error.as_str())));
        }
        if !self.calls.is_empty() {
            members.push(format!("\"calls\":[{}]", self.calls.join(",")));
        }
        format!("{{{}}}", members.join(","))
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
                self.held += call.input.len();
                self.calls.push(*call);
                self.has_descended = true;
            }
            Some(Running::Destruction(text)) => {
                self.held += text.len();
                if let Some(call) = self.calls.last_mut() {
                    call.calls.push(text);
                }
            }
            Some(Running::Plain { first_gas, is_revert, returned }) => {
                self.has_descended = false;
                if let Some(call) = self.calls.last_mut() {
                    // The frame's actual gas, which the caller's instruction does not show.
                    call.gas = first_gas.or(call.gas);
                    if is_revert {
                        call.error = Some(REVERTED.to_owned());
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
            return Err(TracerFailure::Worded(
                "TypeError: undefined    in server-side tracer function 'result'".into(),
            ));
        };
        let outermost = self.calls.first();
        let error = outermost.and_then(|call| call.error.clone()).or_else(|| end.error.clone());
        let shows_output = error.as_ref().is_none_or(|error| error == REVERTED && !end.output.is_empty());
        let time = duration_text(self.began.elapsed());
        let call = Call {
            kind: Some(start.kind),
            from: start.from,
            to: Some(start.to),
            input: start.input.clone(),
            value: start.value.map(saturated),
            gas: Some(start.gas),
            gas_used: Some(end.gas_used.into()),
            output: shows_output.then(|| end.output.clone()),
            error,
            ..Call::default()
        };
        let text = call.text();
        let inner = outermost.map(|call| call.calls.join(",")).filter(|calls| !calls.is_empty());
        let calls = inner.map(|calls| format!(",\"calls\":[{calls}]")).unwrap_or_default();
        Ok(TraceResult::Script(format!("{},\"time\":\"{time}\"{calls}}}", text.trim_end_matches('}'))))
    }
}
