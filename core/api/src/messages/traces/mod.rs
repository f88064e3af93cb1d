//! What tracers have recorded. Plugins write it as JSON (`tenon_sdk::shapes::TraceText`).
//!
//! A tree of calls is a list in the order in which the calls began, each with its depth. A tree can be as deep as the
//! EVM allows, and a recursive encoding would need a large stack.

mod accounts;
mod calls;
mod disassembly;
mod flat_calls;
mod legacy_calls;
mod steps;
mod validation;

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

use super::TraceFailure;

pub use accounts::{Prestate, SignedBalance, TracedAccount};
pub use calls::{CallFrame, FrameKind, GasByKind, TracedLog};
pub use disassembly::{DisassembledCall, DisassembledFrame, DisassembledOperation};
pub use flat_calls::{FlatAction, FlatCall, FlatOutput};
pub use legacy_calls::{LegacyCallFrame, LegacyCalls};
pub use steps::{MalformedSteps, StepReader, StepRecorder, TraceStep, TraceSteps, Words};
pub use validation::{AccessedSlots, ContractSize, ValidationFrame};

/// The client whose tracers a chain has. It determines their options, results and error texts, and how a block is
/// replayed.
///
/// A value and not a trait, because plugins receive it with the results, and because the tracers belong to the simulation,
/// which a family's crates do not know. Only the files in `scripts/check-family.py` compare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TracerDialect {
    /// go-ethereum's.
    Ethereum,
    /// Those of the reference client (`docs/spec/rpc-node.md` 4.2).
    Reference,
}

/// The results of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceReply {
    /// Determines the JSON form of the results.
    pub dialect: TracerDialect,
    /// The results.
    pub results: TraceResults,
}

/// One result, or those of a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TraceResults {
    /// Of a transaction or a call.
    Single(TraceResult),
    /// Of the transactions of a block, in their order.
    Block(Vec<TransactionTrace>),
}

/// The trace of a transaction of a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionTrace {
    /// The transaction.
    pub hash: B256,
    /// Its result, or why it could not be traced.
    pub result: Result<TraceResult, TraceFailure>,
}

/// The result of a tracer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TraceResult {
    /// The JSON text that a script made. Only the script knows its form.
    Script(String),
    /// Every instruction.
    StructLog(StructLog),
    /// The tree of calls. Empty if the outermost call was refused before it began.
    Calls(Vec<CallFrame>),
    /// The tree of calls, as the reference's older tracer sees it.
    LegacyCalls(LegacyCalls),
    /// The calls as a list.
    FlatCalls(Vec<FlatCall>),
    /// The accounts touched.
    Prestate(Prestate),
    /// Selectors of called functions.
    Selectors(Vec<SelectorCount>),
    /// The contracts found.
    Contracts(Vec<Address>),
    /// The executed code; the first frame is the outermost.
    Disassembly(Vec<DisassembledFrame>),
    /// The number of instructions.
    InstructionCount(u64),
    /// Sequences of instructions, by their names joined with `-`, and how often each ran.
    Sequences(Vec<(String, u64)>),
    /// The tree of calls, with the facts that ERC-7562 restricts in the validation of a user operation.
    Validation(Vec<ValidationFrame>),
    /// Gas by kind.
    StateGas(StateGas),
    /// Nothing.
    Noop,
    /// Results of several tracers, each of another kind.
    Mux(Vec<Self>),
}

/// What the struct logger recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StructLog {
    /// Gas of the transaction, after refunds.
    pub gas: u64,
    /// Whether its outermost call failed.
    pub has_failed: bool,
    /// Its output.
    pub output: Bytes,
    /// Names of the recorded instructions.
    pub names: Vec<(u8, String)>,
    /// The instructions.
    pub steps: TraceSteps,
}

/// How often a function was called with data of this length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectorCount {
    /// The function's selector. Empty where the reference's older tracer reads beyond the memory.
    pub selector: Bytes,
    /// Length of the data after it, bytes.
    pub data_length: U256,
    /// Number of calls.
    pub count: u64,
}

/// Gas of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateGas {
    /// All gas used, after refunds.
    pub gas_used: u64,
    /// Gas by kind.
    pub by_kind: GasByKind,
}

impl TraceReply {
    /// Memory of the results, bytes, approximately. The encoded reply is not longer.
    pub fn size(&self) -> usize {
        match &self.results {
            TraceResults::Single(result) => result.size(),
            TraceResults::Block(traces) => traces.iter().map(TransactionTrace::size).sum(),
        }
    }
}

impl TransactionTrace {
    /// Memory of the result, bytes, approximately.
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.result.as_ref().map_or_else(TraceFailure::size, TraceResult::size)
    }
}

impl TraceResult {
    /// Memory of the result, bytes, approximately.
    pub fn size(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Script(json) => json.len(),
                Self::StructLog(log) => log.size(),
                Self::Calls(frames) => frames.iter().map(CallFrame::size).sum(),
                Self::LegacyCalls(calls) => calls.frames.iter().map(LegacyCallFrame::size).sum(),
                Self::FlatCalls(calls) => calls.iter().map(FlatCall::size).sum(),
                Self::Prestate(prestate) => prestate.size(),
                Self::Selectors(counts) => counts.iter().map(|found| size_of_val(found) + found.selector.len()).sum(),
                Self::Contracts(found) => ENCODED_ADDRESS * found.len(),
                Self::Disassembly(frames) => frames.iter().map(DisassembledFrame::size).sum(),
                Self::Sequences(counts) => counts.iter().map(|counted| size_of_val(counted) + counted.0.len()).sum(),
                Self::Validation(frames) => frames.iter().map(ValidationFrame::size).sum(),
                Self::InstructionCount(_) | Self::StateGas(_) | Self::Noop => 0,
                Self::Mux(results) => results.iter().map(Self::size).sum(),
            }
    }
}

impl StructLog {
    fn size(&self) -> usize {
        let names: usize = self.names.iter().map(|(_, name)| size_of::<(u8, String)>() + name.len()).sum();
        self.output.len() + names + self.steps.len()
    }
}

/// Length of an encoded address, and of an encoded hash: more than in memory.
const ENCODED_ADDRESS: usize = size_of::<Address>() + 1;
const ENCODED_HASH: usize = size_of::<B256>() + 1;

/// Length of an optional text.
fn length_of(text: &Option<String>) -> usize {
    text.as_ref().map_or(0, String::len)
}

/// Length of optional bytes.
fn length_of_bytes(bytes: &Option<Bytes>) -> usize {
    bytes.as_ref().map_or(0, |bytes| bytes.len())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::codec;

    /// Results whose items are as short as possible in a frame, so that decoding them takes the most memory for its
    /// length.
    fn densest(items: usize) -> Vec<TraceResult> {
        let call = CallFrame {
            depth: 0,
            kind: FrameKind::Call,
            from: Address::ZERO,
            to: None,
            value: None,
            gas: 0,
            gas_used: 0,
            gas_by_kind: None,
            input: Bytes::new(),
            output: None,
            error: None,
            revert_reason: None,
            logs: Vec::new(),
        };
        let flat = FlatCall {
            action: FlatAction::Destroy { address: Address::ZERO, receiver: Address::ZERO, balance: U256::ZERO },
            block_hash: None,
            block_number: None,
            error: None,
            output: None,
            inner_calls: 0,
            place: Vec::new(),
            transaction_hash: None,
            transaction_index: None,
        };
        let account =
            TracedAccount { address: Address::ZERO, balance: None, nonce: None, code: None, slots: Vec::new() };
        let selector = SelectorCount { selector: Bytes::new(), data_length: U256::ZERO, count: 0 };
        let operations = vec![DisassembledOperation::default(); items];
        let validation = ValidationFrame {
            depth: 0,
            kind: FrameKind::Call,
            from: Address::ZERO,
            to: None,
            value: None,
            gas: 0,
            gas_used: 0,
            input: Bytes::new(),
            output: None,
            error: None,
            revert_reason: None,
            logs: Vec::new(),
            accessed_slots: AccessedSlots::default(),
            inspected_code: Vec::new(),
            opcodes: Vec::new(),
            contract_sizes: Vec::new(),
            is_out_of_gas: false,
            hashed: Vec::new(),
        };
        vec![
            TraceResult::Calls(vec![call; items]),
            TraceResult::LegacyCalls(LegacyCalls {
                frames: vec![LegacyCallFrame::default(); items],
                time: Duration::ZERO,
            }),
            TraceResult::FlatCalls(vec![flat; items]),
            TraceResult::Prestate(Prestate::Before(vec![account; items])),
            TraceResult::Selectors(vec![selector; items]),
            TraceResult::Contracts(vec![Address::ZERO; items]),
            TraceResult::Disassembly(vec![DisassembledFrame { operations, ..DisassembledFrame::default() }]),
            TraceResult::Disassembly(vec![DisassembledFrame::default(); items]),
            TraceResult::Sequences(vec![(String::new(), 0); items]),
            TraceResult::Validation(vec![validation; items]),
            TraceResult::Mux(vec![TraceResult::Noop; items]),
        ]
    }

    fn check(result: TraceResult) -> usize {
        let reply = TraceReply { dialect: TracerDialect::Ethereum, results: TraceResults::Single(result) };

        let frame = codec::encode(&reply).unwrap();

        let length = frame.len();
        assert!(length <= reply.size(), "{length} bytes for {}", reply.size());
        assert!(codec::decode::<TraceReply>(&frame).as_ref() == Ok(&reply), "a frame of {length} bytes");
        length
    }

    // A short frame is decoded within a multiple of its length.
    #[test]
    fn the_densest_results_decode_whether_their_frame_is_short_or_long() {
        const MAX_SHORT_FRAME: usize = 64 << 10;
        for (place, result) in densest(1000).into_iter().enumerate() {
            let length = check(result);

            let items = MAX_SHORT_FRAME * 1000 / length;
            let nearly = check(densest(items).swap_remove(place));
            assert!((MAX_SHORT_FRAME - 1000..=MAX_SHORT_FRAME).contains(&nearly), "{place}: {nearly} bytes");
            check(densest(3 * items).swap_remove(place));
        }
    }
}
