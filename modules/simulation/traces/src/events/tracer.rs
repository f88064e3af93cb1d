//! The interface of tracers that receive events, and their answers.

use alloy_primitives::{Address, Bytes, U256};
use tenon_api::{
    WholeBalance,
    messages::{FrameKind, NoTraceResult, TraceResult},
};
use tenon_execution_interface::StateError;
use tenon_javascript::ScriptError;

use super::accounts::Accounts;

/// The start of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameStart {
    /// How it began.
    pub kind: FrameKind,
    /// The caller or creator.
    pub from: Address,
    /// The account whose code runs, or that is created.
    pub to: Address,
    /// Call data, or init code.
    pub input: Bytes,
    /// Gas of the frame.
    pub gas: u64,
    /// Wei; `None` for calls without a value of their own. Only the value of a self-destruction can exceed 256 bits.
    pub value: Option<WholeBalance>,
}

/// The end of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameEnd {
    /// Its output, or the created code.
    pub output: Bytes,
    /// Gas that it used.
    pub gas_used: u64,
    /// Why it failed.
    pub error: Option<String>,
}

/// The text that the reference's tracers record for a frame that reverted. It is data of the frame, like its output.
pub const REVERTED: &str = "execution reverted";

/// An instruction before it runs.
pub struct Step<'a> {
    /// Its position in the code.
    pub pc: usize,
    /// The instruction.
    pub opcode: u8,
    /// Remaining gas.
    pub gas: u64,
    /// 1 for the outermost frame.
    pub depth: usize,
    /// Top last.
    pub stack: &'a [U256],
    /// Before it grows for this instruction.
    pub memory: &'a [u8],
    /// The contract whose storage is used.
    pub contract: Address,
    /// The caller of the contract.
    pub caller: Address,
    /// Wei of the call.
    pub value: U256,
    /// Call data.
    pub input: &'a Bytes,
    /// The refund counter.
    pub refund: u64,
    /// Set only for instructions that change the state immediately, and for tracers that read the state.
    pub ahead: Option<PredictedOutcome>,
}

/// The outcome of an instruction that has not run.
pub struct PredictedOutcome {
    /// Its cost.
    pub cost: u64,
    /// Why it will be refused.
    pub error: Option<String>,
}

impl Step<'_> {
    /// The item `depth` places below the top; zero if there is none, as in the reference.
    pub fn peek(&self, depth: usize) -> U256 {
        self.stack.len().checked_sub(depth + 1).and_then(|index| self.stack.get(index)).copied().unwrap_or_default()
    }

    /// Memory from `offset` on; empty if it is too short, as in the reference.
    pub fn memory_slice(&self, offset: U256, length: U256) -> &[u8] {
        let range = usize::try_from(offset).ok().zip(usize::try_from(length).ok());
        let range = range.and_then(|(offset, length)| Some(offset..offset.checked_add(length)?));
        range.and_then(|range| self.memory.get(range)).unwrap_or_default()
    }
}

/// The result of the last step's instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepEnd<'a> {
    /// It ran, or opened a frame.
    Ran {
        /// Its cost, including gas passed to a call, but not to a creation.
        cost: u64,
    },
    /// It was refused before it ran: stack bounds, or gas.
    Refused {
        /// The gas it would have cost.
        cost: u64,
        /// The reason.
        error: &'a str,
    },
    /// It ran and failed.
    Failed {
        /// Its cost.
        cost: u64,
        /// The reason.
        error: &'a str,
    },
}

/// Data known at the end of a run.
pub struct Run<'a> {
    /// Gas of the whole transaction, after refunds.
    pub gas_used: u64,
    /// Gas before the first instruction.
    pub intrinsic_gas: u64,
    /// Wei per gas that the sender pays.
    pub gas_price: U256,
    /// The outermost frame; `None` if it was refused.
    pub frame: Option<(&'a FrameStart, &'a FrameEnd)>,
}

/// Receives events and produces the answer. Methods that are not implemented ignore their events.
pub trait Tracer {
    /// The outermost frame begins.
    fn start(&mut self, _frame: &FrameStart) {}

    /// An instruction is about to run.
    ///
    /// # Errors
    /// The database failed.
    fn step(&mut self, _step: &Step<'_>, _accounts: &mut dyn Accounts) -> Result<(), StateError> {
        Ok(())
    }

    /// The instruction of the last step has ended.
    fn step_end(&mut self, _end: StepEnd<'_>) {}

    /// An inner frame begins.
    fn enter(&mut self, _frame: &FrameStart) {}

    /// The newest inner frame has ended.
    fn exit(&mut self, _end: &FrameEnd) {}

    /// The outermost frame has ended.
    fn end(&mut self, _end: &FrameEnd) {}

    /// The state is about to change.
    ///
    /// # Errors
    /// The database failed.
    fn settle(&mut self, _accounts: &mut dyn Accounts) -> Result<(), StateError> {
        Ok(())
    }

    /// Whether the tracer may read the state after the event of a step.
    fn reads_state(&self) -> bool {
        false
    }

    /// Whether the run can be ended, because there will be no answer.
    fn has_failed(&self) -> bool {
        false
    }

    /// The reason why there is no answer.
    fn take_error(&mut self) -> Option<ScriptError> {
        None
    }

    /// Approximate memory use in bytes, which is limited.
    fn held_bytes(&self) -> usize {
        0
    }

    /// The answer.
    ///
    /// # Errors
    /// Why there is none.
    fn result(&mut self, run: &Run<'_>, accounts: &mut dyn Accounts) -> Result<TraceResult, TracerFailure>;
}

/// Why a tracer has no answer.
#[derive(derive_more::From)]
pub enum TracerFailure {
    /// The tracer has no answer for this run.
    NoResult(NoTraceResult),
    /// The script failed.
    Script(ScriptError),
    /// The database failed.
    #[from]
    State(StateError),
}
