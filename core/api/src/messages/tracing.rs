//! Traces of transactions: what is traced, and by which tracer. Topic `0x0303`.

use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes};
use serde::{Deserialize, Serialize};

use super::{AccountOverride, BlockOverrides, CallRequest, TraceFailure, TraceReply, request};
use crate::BlockId;

/// Which transactions to trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TraceTarget {
    /// One transaction of the chain: a single result.
    Transaction(B256),
    /// All transactions of a block: a list of results.
    Block(BlockId),
    /// All transactions of a block given as RLP, whose parent must be known: a list of results.
    RawBlock(Bytes),
    /// A call that is not on the chain: a single result.
    Call {
        /// The call.
        request: Box<CallRequest>,
        /// The block after which it runs.
        block: BlockId,
        /// Runs it before this transaction of the block instead of after the whole block.
        transaction_index: Option<u64>,
        /// Overrides of accounts.
        state_overrides: Vec<(Address, AccountOverride)>,
        /// Overrides of the block.
        block_overrides: Box<BlockOverrides>,
    },
}

/// Traces transactions (`debug_trace*`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// What to trace.
    pub target: TraceTarget,
    /// How to trace it.
    pub options: TraceOptions,
}
request!(Trace => Result<TraceReply, TraceFailure>, topic 0x0303, schema 5, CallEvm);

/// How to trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceOptions {
    /// The tracer.
    pub tracer: Tracer,
    /// Maximum time of one traced transaction, if the caller set one. The node's own maximum holds as well.
    pub timeout: Option<Duration>,
}

/// What is recorded of a transaction. The family of a chain determines which tracers it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tracer {
    /// Every instruction.
    StructLogger(StructLogOptions),
    /// The tree of calls.
    Calls(CallTracerOptions),
    /// The tree of calls, in the form of the reference's older tracer.
    CallsLegacy,
    /// The accounts that a transaction touches, before it and on request after it.
    Prestate(PrestateTracerOptions),
    /// Selectors of called functions.
    Selectors,
    /// Selectors of called functions, read from the stack as the reference's older tracer does.
    SelectorsLegacy,
    /// The calls as a list.
    FlatCalls(FlatCallTracerOptions),
    /// Several tracers in one run, each at most once.
    Mux(Vec<MuxedTracer>),
    /// Nothing.
    Noop,
    /// What ERC-7562 requires of the validation of user operations.
    Erc7562(Erc7562Options),
    /// Gas for the growth of the state.
    StateGas,
    /// Contracts that execute the named instruction; without a name, contracts that are created.
    Contracts {
        /// The instruction's name.
        instruction: Option<String>,
    },
    /// What is needed to disassemble the executed code.
    Disassembly,
    /// The number of instructions.
    InstructionCount,
    /// How often each sequence of this many instructions ran: one, two or three.
    Sequences(SequenceLength),
    /// A script.
    Script {
        /// Its source, in JavaScript.
        source: String,
        /// The JSON text of its configuration. Only the script interprets it.
        config: String,
    },
    /// A tracer that the node does not have. Each traced transaction fails with this text, because some chain families
    /// report an unusable tracer only per transaction.
    Unusable {
        /// The error's text.
        reason: String,
    },
}

impl Default for Tracer {
    fn default() -> Self {
        Self::StructLogger(StructLogOptions::default())
    }
}

/// What the struct logger records at each instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StructLogOptions {
    /// The stack.
    pub with_stack: bool,
    /// The memory.
    pub with_memory: bool,
    /// The slots of the contract that have been read and written.
    pub with_storage: bool,
    /// Data that the last call returned.
    pub with_return_data: bool,
    /// Maximum number of instructions. Zero means all. Negative means none, as in the reference.
    pub limit: i64,
}

impl Default for StructLogOptions {
    fn default() -> Self {
        Self { with_stack: true, with_memory: false, with_storage: true, with_return_data: false, limit: 0 }
    }
}

/// Options of [`Tracer::Calls`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTracerOptions {
    /// Records the outermost call only.
    pub only_top_call: bool,
    /// Records logs too.
    pub with_logs: bool,
}

/// Options of [`Tracer::Prestate`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrestateTracerOptions {
    /// Shows the accounts that changed, before and after.
    pub is_difference: bool,
    /// Leaves code out.
    pub without_code: bool,
    /// Leaves storage out.
    pub without_storage: bool,
}

/// Options of [`Tracer::FlatCalls`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlatCallTracerOptions {
    /// Uses Parity's error texts.
    pub converts_errors: bool,
    /// Includes calls of precompiled contracts.
    pub with_precompiles: bool,
}

/// Options of [`Tracer::Erc7562`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erc7562Options {
    /// Number of stack items that are recorded at each instruction, if the caller set one.
    pub stack_items: Option<u64>,
    /// Instructions that are not recorded.
    pub ignored_opcodes: Vec<u8>,
    /// Records logs too.
    pub with_logs: bool,
}

/// A tracer that can run together with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MuxedTracer {
    /// [`Tracer::Calls`].
    Calls(CallTracerOptions),
    /// [`Tracer::Prestate`].
    Prestate(PrestateTracerOptions),
    /// [`Tracer::FlatCalls`].
    FlatCalls(FlatCallTracerOptions),
    /// [`Tracer::Selectors`].
    Selectors,
    /// [`Tracer::Noop`].
    Noop,
    /// [`Tracer::StateGas`].
    StateGas,
}

/// Length of a sequence of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SequenceLength {
    /// Single instructions.
    One,
    /// Pairs.
    Two,
    /// Triples.
    Three,
}
