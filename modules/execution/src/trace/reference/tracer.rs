//! What tracers hear, and what they answer.

use alloy_primitives::{Address, Bytes, U256};

use super::accounts::Accounts;
use crate::block::StateError;

/// How a frame came about, in the reference's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    Call,
    CallCode,
    DelegateCall,
    StaticCall,
    Create,
    Create2,
    SelfDestruct,
}

impl FrameKind {
    /// The instruction that opens such a frame.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Call => "CALL",
            Self::CallCode => "CALLCODE",
            Self::DelegateCall => "DELEGATECALL",
            Self::StaticCall => "STATICCALL",
            Self::Create => "CREATE",
            Self::Create2 => "CREATE2",
            Self::SelfDestruct => "SELFDESTRUCT",
        }
    }

    /// Whether the frame makes a contract.
    pub(super) const fn is_creation(self) -> bool {
        matches!(self, Self::Create | Self::Create2)
    }
}

/// A frame that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrameStart {
    pub(super) kind: FrameKind,
    pub(super) from: Address,
    /// The account whose code runs, or that is made.
    pub(super) to: Address,
    /// Call data, or init code.
    pub(super) input: Bytes,
    /// Gas that the frame is given.
    pub(super) gas: u64,
    /// Wei; none where a call has no value of its own.
    pub(super) value: Option<U256>,
}

/// A frame that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrameEnd {
    /// What it returned, or made.
    pub(super) output: Bytes,
    pub(super) gas_used: u64,
    /// Why it failed.
    pub(super) error: Option<String>,
}

/// The reference's words for a frame that gave up by itself.
pub(super) const REVERTED: &str = "execution reverted";

/// An instruction that is about to run.
pub(super) struct Step<'a> {
    pub(super) pc: usize,
    pub(super) opcode: u8,
    /// Gas that is left.
    pub(super) gas: u64,
    /// One for the outermost frame.
    pub(super) depth: usize,
    /// The top is last.
    pub(super) stack: &'a [U256],
    /// Not yet grown for this instruction.
    pub(super) memory: &'a [u8],
    /// Whose storage the instruction sees.
    pub(super) contract: Address,
}

impl Step<'_> {
    /// The item `depth` places below the top; zero when there is none, as the reference gives it.
    pub(super) fn peek(&self, depth: usize) -> U256 {
        self.stack.len().checked_sub(depth + 1).and_then(|index| self.stack.get(index)).copied().unwrap_or_default()
    }

    /// Memory from `offset` on, nothing when it does not reach so far, as the reference gives it.
    pub(super) fn memory_slice(&self, offset: U256, length: U256) -> &[u8] {
        let range = usize::try_from(offset).ok().zip(usize::try_from(length).ok());
        let range = range.and_then(|(offset, length)| Some(offset..offset.checked_add(length)?));
        range.and_then(|range| self.memory.get(range)).unwrap_or_default()
    }
}

/// How the instruction of the last step went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepEnd<'a> {
    /// It ran, or opened a frame.
    Ran {
        /// Gas that it costs, with what it hands to a call and without what it hands to a creation.
        cost: u64,
    },
    /// It was refused before it ran: the stack's bounds, or gas.
    Refused {
        /// Gas that it would have cost.
        cost: u64,
        /// Why.
        error: &'a str,
    },
    /// It ran and failed.
    Failed {
        /// Gas that it costs.
        cost: u64,
        /// Why.
        error: &'a str,
    },
}

/// What is known when a run is over.
pub(super) struct Run<'a> {
    /// Gas of the whole transaction, after refunds.
    pub(super) gas_used: u64,
    /// Gas before the first instruction.
    pub(super) intrinsic_gas: u64,
    /// Wei per gas that the sender pays.
    pub(super) gas_price: U256,
    /// The outermost frame; none when it was refused.
    pub(super) frame: Option<(&'a FrameStart, &'a FrameEnd)>,
}

/// Hears events and makes the answer. What is not implemented is not listened to.
pub(super) trait Tracer {
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

    /// Bytes that the tracer holds, roughly; they are bounded.
    fn held_bytes(&self) -> usize {
        0
    }

    /// The JSON text of the answer.
    ///
    /// # Errors
    /// The reference's words for why there is none.
    fn result(&mut self, run: &Run<'_>, accounts: &mut dyn Accounts) -> Result<String, TracerFailure>;
}

/// Why a tracer gives no answer.
pub(in crate::trace) enum TracerFailure {
    /// In the reference's words.
    Worded(String),
    /// The database failed.
    State(StateError),
}

impl From<StateError> for TracerFailure {
    fn from(error: StateError) -> Self {
        Self::State(error)
    }
}
