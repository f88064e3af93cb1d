//! Messages between the node and the process of a script.

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};
use tenon_api::WholeBalance;

use crate::interface::ScriptInterface;

/// A message to the process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The first message of a trace.
    Start(Box<Opening>),
    /// Events, in their order.
    Events(Vec<Event>),
    /// The run has ended; the script makes its result.
    Finish(Box<RunFacts>),
    /// Answer to a [`Reply::Query`]; `None` if the database failed.
    Answer(Option<Bytes>),
}

/// A script and its limits.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Opening {
    pub(crate) source: String,
    /// JSON text for `setup`.
    pub(crate) config: String,
    pub(crate) interface: ScriptInterface,
    pub(crate) precompiles: Vec<Address>,
    /// Heap of the script, bytes.
    pub(crate) memory: u64,
    /// Time for the whole trace, milliseconds.
    pub(crate) millis: u64,
    /// Whether to refuse the script if the sandbox is incomplete.
    pub(crate) needs_sandbox: bool,
}

/// A message from the process. Each request except an answer is followed by any number of queries and then by one other
/// reply.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The script was compiled; states which optional functions it has.
    Ready { wants_steps: bool, wants_frames: bool },
    /// The events were handled.
    Done,
    /// A question about an account.
    Query { query: AccountQuery, address: Address, slot: B256 },
    /// JSON text of the result.
    Result(Bytes),
    /// The script failed, or took too long.
    Failed(Failed),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AccountQuery {
    Balance,
    Nonce,
    Code,
    Slot,
    Exists,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Failed {
    Message(String),
    TimedOut,
}

/// Something that happened in the EVM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A frame began, to which the following steps at its depth belong.
    Call(CallFacts),
    /// An instruction is about to run.
    Step(StepFacts),
    /// The instruction of the last step failed.
    Fault {
        /// Its error text.
        error: String,
    },
    /// An inner frame began.
    Enter(FrameFacts),
    /// The newest inner frame ended.
    Exit(ResultFacts),
}

/// A frame as seen by its own instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFacts {
    /// 1 for the outermost frame.
    pub depth: u32,
    /// `CALLER`.
    pub caller: Address,
    /// `ADDRESS`.
    pub address: Address,
    /// `CALLVALUE`, wei.
    pub value: U256,
    /// Call data.
    pub input: Bytes,
}

/// An instruction about to run. Stack and memory are given as changes since the frame's last step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepFacts {
    /// Position in the code.
    pub pc: u64,
    /// The instruction.
    pub opcode: u8,
    /// Its name.
    pub name: String,
    /// Remaining gas.
    pub gas: u64,
    /// Its cost.
    pub cost: u64,
    /// 1 for the outermost frame.
    pub depth: u32,
    /// The refund counter.
    pub refund: u64,
    /// The error, if the instruction is refused before it runs.
    pub error: Option<String>,
    /// Number of unchanged items at the bottom of the stack.
    pub kept: u32,
    /// The items above those, top last.
    pub pushed: Vec<U256>,
    /// Memory size in bytes. Added bytes are zero before `writes` are applied.
    pub memory: u64,
    /// Bytes written since the frame's last step.
    pub writes: Vec<Write>,
}

/// Bytes written to memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// The offset in memory.
    pub offset: u64,
    /// The written bytes.
    pub bytes: Bytes,
}

/// The start of an inner frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameFacts {
    /// The instruction that opened it.
    pub kind: String,
    /// The account that opened it.
    pub from: Address,
    /// The account whose code runs, or the created account.
    pub to: Address,
    /// Call data or init code.
    pub input: Bytes,
    /// Gas of the frame.
    pub gas: u64,
    /// Wei; `None` for calls without a value of their own. Only the value of a self-destruction can exceed 256 bits.
    pub value: Option<WholeBalance>,
}

/// The end of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultFacts {
    /// Gas that it used.
    pub gas_used: u64,
    /// Its output.
    pub output: Bytes,
    /// Why it failed.
    pub error: Option<String>,
}

/// The whole run: the object `ctx` of `result`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFacts {
    /// The outermost frame; its `kind` is `CALL` or `CREATE`. `None` if it was refused.
    pub frame: Option<FrameFacts>,
    /// Its end.
    pub end: ResultFacts,
    /// Gas of the transaction before its first instruction.
    pub intrinsic_gas: u64,
    /// Wei per gas.
    pub gas_price: U256,
    /// Height of the block.
    pub block: u64,
    /// Duration of the run, as Go writes it.
    pub time: String,
    /// The transaction's block.
    pub block_hash: Option<B256>,
    /// Its place there.
    pub index: Option<u64>,
    /// Its hash.
    pub hash: Option<B256>,
}

/// Why a script has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// The script's own error, with the reference's text where it does not depend on the engine.
    #[error("{0}")]
    Script(String),
    /// It ran longer than its trace may.
    #[error("execution timeout")]
    TimedOut,
    /// The caller has gone.
    #[error("request timed out")]
    CallerGone,
    /// A query could not be answered: the database failed.
    #[error("the state cannot be read")]
    State,
    /// Scripts are switched off.
    #[error("tracers written in JavaScript are switched off on this node")]
    SwitchedOff,
    /// All processes for scripts are in use.
    #[error("{max} scripts are running, which is the limit of this node; try again later")]
    TooMany {
        /// The limit.
        max: usize,
    },
    /// There is no memory for another script.
    #[error("there is no memory left for a script, which needs {bytes} bytes; try again later")]
    NoMemory {
        /// Memory of one script.
        bytes: u64,
    },
    /// The process could not be started.
    #[error("cannot start a process for the script: {0}")]
    Spawn(String),
    /// The process ended, for example because its memory was exhausted.
    #[error("the script's process ended: {0}")]
    Ended(String),
}
