//! Trees of calls.

use alloy_primitives::{Address, B256, Bytes};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use super::{ENCODED_HASH, length_of, length_of_bytes};
use crate::WholeBalance;

/// A call or creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFrame {
    /// Number of enclosing calls.
    pub depth: u32,
    /// The instruction that began it.
    pub kind: FrameKind,
    /// The caller.
    pub from: Address,
    /// The contract called or created, or the receiver of a destroyed contract's balance. `None` if nothing was
    /// created.
    pub to: Option<Address>,
    /// Wei; `None` for calls without a value of their own. Only the balance that a destruction moves can exceed 256
    /// bits.
    pub value: Option<WholeBalance>,
    /// Gas of the call.
    pub gas: u64,
    /// Gas that it used.
    pub gas_used: u64,
    /// The outermost call's gas by kind, on chains that count gas for the growth of the state (EIP-8037).
    pub gas_by_kind: Option<GasByKind>,
    /// Call data, or init code.
    pub input: Bytes,
    /// Its output, or the created code.
    pub output: Option<Bytes>,
    /// Why it failed.
    pub error: Option<String>,
    /// The message with which it reverted.
    pub revert_reason: Option<String>,
    /// Its logs.
    pub logs: Vec<TracedLog>,
}

/// Kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "UPPERCASE")]
pub enum FrameKind {
    /// CALL, and a transaction's call.
    Call,
    /// CALLCODE.
    CallCode,
    /// DELEGATECALL.
    DelegateCall,
    /// STATICCALL.
    StaticCall,
    /// CREATE, and a transaction's creation.
    Create,
    /// CREATE2.
    Create2,
    /// SELFDESTRUCT, which is listed like a call.
    SelfDestruct,
}

impl FrameKind {
    /// All kinds.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Name of the instruction.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns whether it creates a contract.
    pub const fn is_creation(self) -> bool {
        matches!(self, Self::Create | Self::Create2)
    }
}

/// Gas of a transaction by kind (EIP-8037).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GasByKind {
    /// For execution.
    pub execution: u64,
    /// For the growth of the state.
    pub state: u64,
    /// Refunded gas.
    pub refund: u64,
}

/// A log of a traced call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedLog {
    /// The contract.
    pub address: Address,
    /// Its topics.
    pub topics: Vec<B256>,
    /// Its data.
    pub data: Bytes,
    /// Number of inner calls before it.
    pub position: u64,
    /// Number of logs of the transaction before it.
    pub index: u64,
}

impl CallFrame {
    pub(super) fn size(&self) -> usize {
        let logs = self.logs.iter().map(TracedLog::size).sum::<usize>();
        let texts = length_of(&self.error) + length_of(&self.revert_reason);
        size_of::<Self>() + self.input.len() + length_of_bytes(&self.output) + logs + texts
    }
}

impl TracedLog {
    pub(super) fn size(&self) -> usize {
        size_of::<Self>() + ENCODED_HASH * self.topics.len() + self.data.len()
    }
}
