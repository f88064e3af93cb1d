//! The tree of calls as the reference's older tracer sees it.

use std::time::Duration;

use alloy_primitives::{Address, Bytes};
use serde::{Deserialize, Serialize};

use super::{FrameKind, length_of, length_of_bytes};
use crate::WholeBalance;

/// The calls of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegacyCalls {
    /// The calls, in the order in which they began.
    pub frames: Vec<LegacyCallFrame>,
    /// How long the trace took.
    pub time: Duration,
}

/// A call. Values that the tracer cannot determine are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegacyCallFrame {
    /// Number of enclosing calls.
    pub depth: u32,
    /// The instruction that began it.
    pub kind: Option<FrameKind>,
    /// The caller.
    pub from: Address,
    /// The contract called or created, or the receiver of a destroyed contract's balance.
    pub to: Option<Address>,
    /// Wei.
    pub value: Option<WholeBalance>,
    /// Gas of the call.
    pub gas: Option<u64>,
    /// Gas that it used, as its caller computes it: it may be negative.
    pub gas_used: Option<i128>,
    /// Call data, or init code.
    pub input: Option<Bytes>,
    /// Its output, or the created code.
    pub output: Option<Bytes>,
    /// Why it failed.
    pub error: Option<String>,
}

impl LegacyCallFrame {
    /// Memory of the call, bytes, approximately.
    pub(super) fn size(&self) -> usize {
        size_of::<Self>() + length_of_bytes(&self.input) + length_of_bytes(&self.output) + length_of(&self.error)
    }
}
