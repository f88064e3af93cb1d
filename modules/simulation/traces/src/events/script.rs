//! Sends the events of a run to a script (`tenon-javascript`).
//!
//! A script may read the state at every step, but events of many steps are sent together. They are sent before the
//! state changes, so that the script reads the state of its step.

use std::time::Instant;

use alloy_primitives::{Address, B256, Bytes, U256};
use revm::bytecode::opcode::{
    CALL, CALLCODE, CALLDATACOPY, CODECOPY, DELEGATECALL, EXTCODECOPY, MCOPY, MSTORE, MSTORE8, RETURNDATACOPY,
    STATICCALL,
};
use tenon_api::{
    WholeBalance,
    messages::{FrameKind, TraceResult},
};
use tenon_execution_interface::StateError;
use tenon_javascript::{
    BATCH_BYTES, CallFacts, Event, FrameFacts, ResultFacts, RunFacts, Script, ScriptError, State, StepFacts, Write,
};

use super::{
    accounts::Accounts,
    tracer::{FrameEnd, FrameStart, Run, Step, StepEnd, Tracer, TracerFailure},
};

use crate::{script_conventions::ScriptConventions, script_place::ScriptPlace};

/// Facts about the run that a script can read.
pub(crate) struct ScriptRun {
    pub(crate) conventions: &'static ScriptConventions,
    pub(crate) place: ScriptPlace,
    /// When it began.
    pub(crate) since: Instant,
}

/// Sends events to a script.
pub(super) struct ScriptTracer {
    script: Script,
    run: ScriptRun,
    /// Not yet sent.
    events: Vec<Event>,
    /// Their approximate size.
    bytes: usize,
    /// The current step, whose cost and outcome are still unknown.
    step: Option<StepFacts>,
    /// Number of frames that have begun and not ended.
    open: usize,
    /// The stacks and memories of open frames that were sent to the script.
    sent: Vec<SentFrame>,
    /// Total length of their stacks, words.
    sent_words: usize,
    failure: Option<ScriptError>,
}

/// A frame as last sent to the script.
#[derive(Default)]
struct SentFrame {
    stack: Vec<U256>,
    /// Offset and length of the memory that the last instruction may have written.
    written: Option<(usize, usize)>,
}

impl ScriptTracer {
    pub(super) fn new(script: Script, run: ScriptRun) -> Self {
        let (events, sent) = (Vec::new(), Vec::new());
        Self { script, run, events, bytes: 0, step: None, open: 0, sent, sent_words: 0, failure: None }
    }

    fn push(&mut self, event: Event) {
        self.bytes += 64
            + match &event {
                Event::Call(call) => call.input.len(),
                Event::Step(step) => {
                    let written: usize = step.writes.iter().map(|write| write.bytes.len()).sum();
                    32 * step.pushed.len() + written
                }
                Event::Fault { error } => error.len(),
                Event::Enter(frame) => frame.input.len(),
                Event::Exit(result) => result.output.len(),
            };
        self.events.push(event);
    }

    /// Sends the pending events, and waits until the script has handled them.
    fn flush(&mut self, accounts: &mut dyn Accounts) -> Result<(), StateError> {
        let events = std::mem::take(&mut self.events);
        self.bytes = 0;
        if events.is_empty() || self.failure.is_some() {
            return Ok(());
        }
        let mut state = ScriptState { accounts, failure: None };
        let handled = self.script.handle(events, &mut state);
        match (handled, state.failure) {
            (_, Some(failure)) => Err(failure),
            (Err(error), None) => {
                self.failure = Some(error);
                Ok(())
            }
            (Ok(()), None) => Ok(()),
        }
    }

    /// Removes the data of frames beyond this number.
    fn close_frames(&mut self, open: usize) {
        for frame in self.sent.drain(open.min(self.sent.len())..) {
            self.sent_words = self.sent_words.saturating_sub(frame.stack.len());
        }
    }

    /// Encodes the step as changes since the frame's last one.
    fn facts(&mut self, step: &Step<'_>) -> StepFacts {
        let depth = u32::try_from(step.depth).unwrap_or(u32::MAX);
        self.close_frames(step.depth);
        while self.sent.len() < step.depth {
            self.sent.push(SentFrame::default());
            let (caller, address, value) = (step.caller, step.contract, step.value);
            self.push(Event::Call(CallFacts { depth, caller, address, value, input: step.input.clone() }));
        }
        let mut facts = StepFacts {
            pc: step.pc as u64,
            opcode: step.opcode,
            name: (self.run.conventions.instruction_name)(step.opcode),
            gas: step.gas,
            depth,
            refund: step.refund,
            memory: step.memory.len() as u64,
            ..StepFacts::default()
        };
        let Some(sent) = self.sent.last_mut() else { return facts };
        let kept = sent.stack.iter().zip(step.stack).take_while(|(before, now)| before == now).count();
        let above = step.stack.get(kept..).unwrap_or_default();
        self.sent_words = (self.sent_words + step.stack.len()).saturating_sub(sent.stack.len());
        sent.stack.truncate(kept);
        sent.stack.extend_from_slice(above);
        (facts.kept, facts.pushed) = (u32::try_from(kept).unwrap_or_default(), above.to_vec());
        if let Some((offset, length)) = sent.written.take() {
            let end = offset.saturating_add(length).min(step.memory.len());
            if let Some(bytes) = step.memory.get(offset..end).filter(|bytes| !bytes.is_empty()) {
                facts.writes.push(Write { offset: offset as u64, bytes: Bytes::copy_from_slice(bytes) });
            }
        }
        sent.written = written(step);
        facts
    }
}

/// Offset and length of what an instruction, or the return of its call, writes to memory.
fn written(step: &Step<'_>) -> Option<(usize, usize)> {
    let (offset, length) = match step.opcode {
        MSTORE => (step.peek(0), U256::from(32)),
        MSTORE8 => (step.peek(0), U256::from(1)),
        CALLDATACOPY | CODECOPY | RETURNDATACOPY | MCOPY => (step.peek(0), step.peek(2)),
        EXTCODECOPY => (step.peek(1), step.peek(3)),
        CALL | CALLCODE => (step.peek(5), step.peek(6)),
        DELEGATECALL | STATICCALL => (step.peek(4), step.peek(5)),
        _ => return None,
    };
    usize::try_from(offset).ok().zip(usize::try_from(length).ok())
}

impl Tracer for ScriptTracer {
    fn start(&mut self, _frame: &FrameStart) {
        self.open = 1;
    }

    fn step(&mut self, step: &Step<'_>, accounts: &mut dyn Accounts) -> Result<(), StateError> {
        if !self.script.wants_steps() || self.failure.is_some() {
            return Ok(());
        }
        let mut facts = self.facts(step);
        match &step.ahead {
            // The instruction changes state that the script may read.
            Some(ahead) => {
                facts.cost = ahead.cost;
                facts.error.clone_from(&ahead.error);
                self.push(Event::Step(facts));
                self.flush(accounts)
            }
            None => {
                if self.bytes >= BATCH_BYTES {
                    self.flush(accounts)?;
                }
                self.step = Some(facts);
                Ok(())
            }
        }
    }

    fn step_end(&mut self, end: StepEnd<'_>) {
        let step = self.step.take();
        let fault = match end {
            StepEnd::Failed { error, .. } => Some(Event::Fault { error: error.to_owned() }),
            StepEnd::Ran { .. } | StepEnd::Refused { .. } => None,
        };
        if let Some(mut step) = step {
            match end {
                StepEnd::Ran { cost } | StepEnd::Failed { cost, .. } => step.cost = cost,
                StepEnd::Refused { cost, error } => (step.cost, step.error) = (cost, Some(error.to_owned())),
            }
            self.push(Event::Step(step));
        }
        if let Some(fault) = fault {
            self.push(fault);
        }
    }

    fn enter(&mut self, frame: &FrameStart) {
        self.open += 1;
        if self.script.wants_frames() {
            self.push(Event::Enter(frame_facts(frame, frame.kind.name())));
        }
    }

    fn exit(&mut self, end: &FrameEnd) {
        self.open = self.open.saturating_sub(1);
        self.close_frames(self.open);
        if self.script.wants_frames() {
            self.push(Event::Exit(result_facts(end)));
        }
    }

    fn settle(&mut self, accounts: &mut dyn Accounts) -> Result<(), StateError> {
        self.flush(accounts)
    }

    fn reads_state(&self) -> bool {
        true
    }

    fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    fn take_error(&mut self) -> Option<ScriptError> {
        self.failure.take()
    }

    fn held_bytes(&self) -> usize {
        // The request accounts for the memory of the process. A stack grows by doubling.
        self.bytes + 2 * size_of::<U256>() * self.sent_words
    }

    fn result(&mut self, run: &Run<'_>, accounts: &mut dyn Accounts) -> Result<TraceResult, TracerFailure> {
        self.flush(accounts)?;
        if let Some(error) = self.failure.take() {
            return Err(TracerFailure::Script(error));
        }
        let facts = run_facts(run, &self.run);
        let mut state = ScriptState { accounts, failure: None };
        let result = self.script.finish(facts, &mut state);
        match state.failure {
            Some(failure) => Err(failure.into()),
            None => match result {
                Ok(json) => Ok(TraceResult::Script(json)),
                Err(error) => Err(TracerFailure::Script(error)),
            },
        }
    }
}

fn frame_facts(frame: &FrameStart, kind: &str) -> FrameFacts {
    FrameFacts {
        kind: kind.to_owned(),
        from: frame.from,
        to: frame.to,
        input: frame.input.clone(),
        gas: frame.gas,
        value: frame.value,
    }
}

fn result_facts(end: &FrameEnd) -> ResultFacts {
    ResultFacts { gas_used: end.gas_used, output: end.output.clone(), error: end.error.clone() }
}

/// The object `ctx`.
fn run_facts(run: &Run<'_>, of: &ScriptRun) -> RunFacts {
    let kind = |kind: FrameKind| if kind.is_creation() { "CREATE" } else { "CALL" };
    let mut frame = run.frame.map(|(frame, _)| frame_facts(frame, kind(frame.kind)));
    let mut end = run.frame.map(|(_, end)| result_facts(end)).unwrap_or_default();
    if of.conventions.counts_whole_transaction {
        end.gas_used = run.gas_used;
        if let Some(frame) = &mut frame {
            frame.gas = of.place.gas_limit;
        }
    }
    let transaction = of.place.transaction;
    RunFacts {
        frame,
        end,
        intrinsic_gas: run.intrinsic_gas,
        gas_price: run.gas_price,
        block: of.place.block,
        time: format!("{:?}", of.since.elapsed()),
        block_hash: transaction.map(|(block, ..)| block),
        index: transaction.map(|(_, index, _)| index),
        hash: transaction.map(|(.., hash)| hash),
    }
}

/// Accounts for a script; keeps the database's error.
struct ScriptState<'a> {
    accounts: &'a mut dyn Accounts,
    failure: Option<StateError>,
}

impl ScriptState<'_> {
    fn keep<T>(&mut self, answer: Result<T, StateError>) -> Option<T> {
        answer.map_err(|error| self.failure = Some(error)).ok()
    }
}

impl State for ScriptState<'_> {
    fn balance(&mut self, address: Address) -> Option<WholeBalance> {
        let answer = self.accounts.balance(address);
        self.keep(answer)
    }

    fn nonce(&mut self, address: Address) -> Option<u64> {
        let answer = self.accounts.nonce(address);
        self.keep(answer)
    }

    fn code(&mut self, address: Address) -> Option<Bytes> {
        let answer = self.accounts.code(address);
        self.keep(answer)
    }

    fn slot(&mut self, address: Address, slot: B256) -> Option<B256> {
        let answer = self.accounts.slot(address, slot.into());
        self.keep(answer).map(B256::from)
    }

    fn exists(&mut self, address: Address) -> Option<bool> {
        let answer = self.accounts.exists(address);
        self.keep(answer)
    }
}
