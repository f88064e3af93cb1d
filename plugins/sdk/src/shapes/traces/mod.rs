//! The JSON of traces: each tracer's result in the form of go-ethereum, or of the reference client
//! (`docs/spec/rpc-node.md` 4.2).
//!
//! Invariant: a long text is written in pieces, so that its writer can stop between them, and the memory of its caller
//! can be counted while it grows.

mod accounts;
mod calls;
mod disassembly;
mod flat_calls;
mod legacy_calls;
mod steps;
mod tree;
mod validation;

use std::vec;

use crate::{Failure, error_texts::trace_failure_text};
use tenon_api::messages::{
    CallFrame, LegacyCallFrame, SelectorCount, StateGas, TraceReply, TraceResult, TraceResults, TracerDialect,
    TransactionTrace, ValidationFrame,
};

use super::JsonWriter;
use accounts::AccountsText;
use calls::NO_CALL;
use disassembly::DisassemblyText;
use flat_calls::FlatText;
use steps::StepsText;
use tree::TreeText;

/// Bytes written in one piece, about: less than a millisecond's work.
const PIECE_BYTES: usize = 256 << 10;

/// Capacity for the result of a short trace, bytes.
const INITIAL_TEXT_BYTES: usize = 1024;

/// The JSON text of a trace while it is written.
///
/// ```
/// use tenon_sdk::{prelude::*, shapes::TraceText};
///
/// let result = TraceResult::Script("[1]".to_owned());
/// let reply = TraceReply { dialect: TracerDialect::Ethereum, results: TraceResults::Single(result) };
/// let mut text = TraceText::new(reply);
/// while !text.write_some().unwrap() {}
/// assert_eq!(text.finish().into_string(), "[1]");
/// ```
pub struct TraceText {
    json: JsonWriter,
    dialect: TracerDialect,
    state: State,
}

enum State {
    /// The result is the whole text.
    Single(ResultText),
    /// A list of results.
    Block(BlockText),
    Finished,
}

impl TraceText {
    /// An empty text.
    pub fn new(reply: TraceReply) -> Self {
        let dialect = reply.dialect;
        match reply.results {
            TraceResults::Single(result) => {
                let result = ResultText::new(result, dialect);
                let json = match result {
                    ResultText::Whole(_) => JsonWriter::default(),
                    _ => JsonWriter::with_capacity(INITIAL_TEXT_BYTES),
                };
                Self { json, dialect, state: State::Single(result) }
            }
            TraceResults::Block(traces) => {
                let mut json = JsonWriter::with_capacity(INITIAL_TEXT_BYTES);
                json.begin_list();
                let block = BlockText { current: None, rest: traces.into_iter(), untraced: 0 };
                Self { json, dialect, state: State::Block(block) }
            }
        }
    }

    /// An empty text of a block in a range of blocks (`debug_subscribe traceChain`). In the reference's form, the
    /// transactions after one that cannot be traced are `null`.
    pub fn of_block_in_range(mut reply: TraceReply) -> Self {
        let mut untraced = 0;
        if let (TracerDialect::Reference, TraceResults::Block(traces)) = (reply.dialect, &mut reply.results)
            && let Some(failed) = traces.iter().position(|trace| trace.result.is_err())
        {
            untraced = traces.len() - failed - 1;
            traces.truncate(failed + 1);
        }
        let mut text = Self::new(reply);
        if let State::Block(block) = &mut text.state {
            block.untraced = untraced;
        }
        text
    }

    /// Writes the next piece. Returns whether the text is complete.
    ///
    /// # Errors
    /// The result is malformed.
    pub fn write_some(&mut self) -> Result<bool, Failure> {
        let end = self.json.len() + PIECE_BYTES;
        let is_finished = match &mut self.state {
            State::Finished => true,
            State::Single(result) => result.write(&mut self.json, self.dialect, end)?,
            State::Block(block) => block.write(&mut self.json, self.dialect, end)?,
        };
        if is_finished {
            self.state = State::Finished;
        }
        Ok(is_finished)
    }

    /// Bytes written.
    pub const fn len(&self) -> usize {
        self.json.len()
    }

    /// Whether nothing is written.
    pub const fn is_empty(&self) -> bool {
        self.json.is_empty()
    }

    /// Bytes allocated for the text.
    pub fn capacity(&self) -> usize {
        self.json.capacity()
    }

    /// The text. It is complete once [`Self::write_some`] has returned true.
    pub fn finish(self) -> JsonWriter {
        self.json
    }
}

/// The results of a block while they are written.
struct BlockText {
    current: Option<ResultText>,
    rest: vec::IntoIter<TransactionTrace>,
    /// Number of transactions without a trace after them.
    untraced: usize,
}

impl BlockText {
    /// Writes until the text has `end` bytes. Returns whether the list is complete.
    fn write(&mut self, json: &mut JsonWriter, dialect: TracerDialect, end: usize) -> Result<bool, Failure> {
        loop {
            if let Some(result) = &mut self.current {
                if !result.write(json, dialect, end)? {
                    return Ok(false);
                }
                json.end_object();
                self.current = None;
            }
            if json.len() >= end {
                return Ok(false);
            }
            let Some(trace) = self.rest.next() else {
                (0..self.untraced).for_each(|_| json.null());
                json.end_list();
                return Ok(true);
            };
            self.current = begin_transaction(json, dialect, trace);
        }
    }
}

/// Writes the trace of a transaction up to its result; all of it if there is none.
fn begin_transaction(json: &mut JsonWriter, dialect: TracerDialect, trace: TransactionTrace) -> Option<ResultText> {
    json.begin_object();
    if dialect == TracerDialect::Ethereum {
        json.key("txHash").data(trace.hash);
    }
    match trace.result {
        Ok(result) => {
            json.key("result");
            Some(ResultText::new(result, dialect))
        }
        Err(failure) => {
            json.key("error").text(&trace_failure_text(&failure));
            json.end_object();
            None
        }
    }
}

/// A result while it is written.
enum ResultText {
    Steps(StepsText),
    Calls(TreeText<CallFrame>),
    LegacyCalls(TreeText<LegacyCallFrame>),
    Validation(Box<TreeText<ValidationFrame>>),
    FlatCalls(FlatText),
    Accounts(AccountsText),
    Disassembly(DisassemblyText),
    Mux(MuxText),
    /// A short result, or one that is finished JSON.
    Whole(JsonWriter),
}

impl ResultText {
    fn new(result: TraceResult, dialect: TracerDialect) -> Self {
        let mut json = JsonWriter::default();
        match result {
            TraceResult::StructLog(log) => return Self::Steps(StepsText::new(log, dialect)),
            TraceResult::Calls(frames) if !frames.is_empty() => return Self::Calls(TreeText::new(frames, dialect)),
            TraceResult::Calls(_) => json.raw(NO_CALL),
            TraceResult::LegacyCalls(calls) => return Self::LegacyCalls(TreeText::new(calls.frames, calls.time)),
            TraceResult::Validation(frames) => return Self::Validation(Box::new(TreeText::new(frames, ()))),
            TraceResult::FlatCalls(calls) => return Self::FlatCalls(FlatText::new(calls)),
            TraceResult::Prestate(prestate) => return Self::Accounts(AccountsText::new(prestate, dialect)),
            TraceResult::Disassembly(frames) => return Self::Disassembly(DisassemblyText::new(frames)),
            TraceResult::Mux(results) => return Self::Mux(MuxText::new(results)),
            TraceResult::Script(text) => json = JsonWriter::from_json(text),
            TraceResult::Selectors(counts) => write_selectors(&mut json, &counts),
            TraceResult::Contracts(found) => {
                json.begin_list();
                found.iter().for_each(|contract| json.data(contract));
                json.end_list();
            }
            TraceResult::InstructionCount(count) => json.number(count),
            TraceResult::Sequences(counts) => {
                json.begin_object();
                counts.iter().for_each(|(sequence, count)| json.key(sequence).number(*count));
                json.end_object();
            }
            TraceResult::StateGas(gas) => write_state_gas(&mut json, &gas),
            TraceResult::Noop => json.raw("{}"),
        }
        Self::Whole(json)
    }

    /// Writes until the text has `end` bytes. Returns whether the result is complete.
    fn write(&mut self, json: &mut JsonWriter, dialect: TracerDialect, end: usize) -> Result<bool, Failure> {
        Ok(match self {
            Self::Steps(steps) => steps.write(json, end)?,
            Self::Calls(calls) => calls.write(json, end),
            Self::LegacyCalls(calls) => calls.write(json, end),
            Self::Validation(calls) => calls.write(json, end),
            Self::FlatCalls(calls) => calls.write(json, end),
            Self::Accounts(accounts) => accounts.write(json, end),
            Self::Disassembly(operations) => operations.write(json, end),
            Self::Mux(results) => results.write(json, dialect, end)?,
            Self::Whole(result) => {
                json.append(std::mem::take(result));
                true
            }
        })
    }
}

fn write_selectors(json: &mut JsonWriter, counts: &[SelectorCount]) {
    json.begin_object();
    for SelectorCount { selector, data_length, count } in counts {
        json.key(&format!("{selector}-{data_length}")).number(*count);
    }
    json.end_object();
}

fn write_state_gas(json: &mut JsonWriter, gas: &StateGas) {
    json.begin_object();
    json.key("gasUsed").quantity(gas.gas_used);
    json.key("executionGasUsed").quantity(gas.by_kind.execution);
    json.key("stateGasUsed").quantity(gas.by_kind.state);
    json.key("gasRefund").quantity(gas.by_kind.refund);
    json.end_object();
}

/// Results of several tracers while they are written.
struct MuxText {
    current: Option<Box<ResultText>>,
    rest: vec::IntoIter<TraceResult>,
    has_begun: bool,
}

impl MuxText {
    fn new(results: Vec<TraceResult>) -> Self {
        Self { current: None, rest: results.into_iter(), has_begun: false }
    }

    fn write(&mut self, json: &mut JsonWriter, dialect: TracerDialect, end: usize) -> Result<bool, Failure> {
        if !self.has_begun {
            self.has_begun = true;
            json.begin_object();
        }
        loop {
            if let Some(result) = &mut self.current {
                if !result.write(json, dialect, end)? {
                    return Ok(false);
                }
                self.current = None;
            }
            let Some(result) = self.rest.next() else {
                json.end_object();
                return Ok(true);
            };
            json.key(tracer_name(&result));
            self.current = Some(Box::new(ResultText::new(result, dialect)));
        }
    }
}

/// go-ethereum's name of the tracer with such results.
const fn tracer_name(result: &TraceResult) -> &'static str {
    match result {
        TraceResult::Calls(_) => "callTracer",
        TraceResult::FlatCalls(_) => "flatCallTracer",
        TraceResult::Prestate(_) => "prestateTracer",
        TraceResult::Selectors(_) => "4byteTracer",
        TraceResult::Noop => "noopTracer",
        TraceResult::StateGas(_) => "stateGasTracer",
        TraceResult::Mux(_) => "muxTracer",
        TraceResult::Validation(_) => "erc7562Tracer",
        // Tracers that cannot run together with others.
        TraceResult::Script(_)
        | TraceResult::StructLog(_)
        | TraceResult::LegacyCalls(_)
        | TraceResult::Contracts(_)
        | TraceResult::Disassembly(_)
        | TraceResult::InstructionCount(_)
        | TraceResult::Sequences(_) => "",
    }
}

#[cfg(test)]
mod tests {
    use tenon_api::{
        Address, B256, Bytes, U256,
        messages::{GasByKind, TraceFailure},
    };

    use super::*;

    /// The text of a reply.
    pub(super) fn whole_text(reply: TraceReply) -> String {
        let mut text = TraceText::new(reply);
        while !text.write_some().unwrap() {}
        text.finish().into_string()
    }

    #[test]
    fn short_results_have_the_form_of_their_tracer() {
        let text =
            |result| whole_text(TraceReply { dialect: TracerDialect::Ethereum, results: TraceResults::Single(result) });
        let selector = |selector: &'static [u8]| SelectorCount {
            selector: Bytes::from_static(selector),
            data_length: U256::from(32),
            count: 2,
        };
        let by_kind = GasByKind { execution: 2, state: 3, refund: 4 };
        let state_gas = || TraceResult::StateGas(StateGas { gas_used: 1, by_kind });
        let gas = r#"{"gasUsed":"0x1","executionGasUsed":"0x2","stateGasUsed":"0x3","gasRefund":"0x4"}"#;
        let zero = format!("0x{}", "0".repeat(40));
        let counts = || TraceResult::Selectors(vec![selector(&[0, 1, 2, 0xff]), selector(&[])]);
        let selectors = r#"{"0x000102ff-32":2,"0x-32":2}"#;
        let sequences = vec![("PUSH1-opcode 0xc not defined".to_owned(), 1), ("ADD-ADD".to_owned(), 2)];

        assert_eq!(text(counts()), selectors);
        assert_eq!(text(TraceResult::Contracts(vec![Address::ZERO; 2])), format!(r#"["{zero}","{zero}"]"#));
        assert_eq!(text(TraceResult::InstructionCount(7)), "7");
        assert_eq!(text(TraceResult::Sequences(sequences)), r#"{"PUSH1-opcode 0xc not defined":1,"ADD-ADD":2}"#);
        assert_eq!(text(TraceResult::Noop), "{}");
        assert_eq!(text(state_gas()), gas);
        assert_eq!(
            text(TraceResult::Mux(vec![counts(), TraceResult::Noop, state_gas(), TraceResult::FlatCalls(vec![])])),
            format!(r#"{{"4byteTracer":{selectors},"noopTracer":{{}},"stateGasTracer":{gas},"flatCallTracer":[]}}"#)
        );
    }

    #[test]
    fn a_block_lists_its_transactions_in_the_form_of_its_dialect() {
        let traces = || {
            let trace = |result| TransactionTrace { hash: B256::ZERO, result };
            TraceResults::Block(vec![
                trace(Ok(TraceResult::Script("1".to_owned()))),
                trace(Err(TraceFailure::Script { error: "(0 <=> \"1\")".to_owned() })),
                trace(Ok(TraceResult::Calls(vec![]))),
            ])
        };
        let text = |dialect| whole_text(TraceReply { dialect, results: traces() });
        let calls = r#"{"type":"","from":"","gas":"","gasUsed":"","input":""}"#;
        let hash = format!("\"txHash\":\"{}\",", B256::ZERO);

        let reference = format!(r#"[{{"result":1}},{{"error":"(0 <=> \"1\")"}},{{"result":{calls}}}]"#);
        assert_eq!(text(TracerDialect::Reference), reference);
        let with_hashes = reference.replace("{\"result\"", &format!("{{{hash}\"result\""));
        assert_eq!(text(TracerDialect::Ethereum), with_hashes.replace("{\"error\"", &format!("{{{hash}\"error\"")));
        let nothing = TraceReply { dialect: TracerDialect::Ethereum, results: TraceResults::Block(vec![]) };
        assert_eq!(whole_text(nothing), "[]");
    }

    #[test]
    fn a_range_has_null_after_a_failed_trace_in_the_form_of_the_reference_only() {
        let text = |dialect| {
            let trace = |result| TransactionTrace { hash: B256::ZERO, result };
            let one = || Ok(TraceResult::Script("1".to_owned()));
            let traces = vec![trace(one()), trace(Err(TraceFailure::TimedOut)), trace(one()), trace(one())];
            let mut text = TraceText::of_block_in_range(TraceReply { dialect, results: TraceResults::Block(traces) });
            while !text.write_some().unwrap() {}
            text.finish().into_string()
        };

        assert_eq!(text(TracerDialect::Reference), r#"[{"result":1},{"error":"execution timeout"},null,null]"#);
        assert!(!text(TracerDialect::Ethereum).contains("null"));
    }
}
