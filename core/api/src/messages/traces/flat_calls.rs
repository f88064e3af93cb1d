//! Calls as a list, in Parity's form.

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

use super::{FrameKind, length_of};

/// A call with its place in the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlatCall {
    /// Call, creation or destruction.
    pub action: FlatAction,
    /// The block.
    pub block_hash: Option<B256>,
    /// Its height.
    pub block_number: Option<u64>,
    /// Why it failed.
    pub error: Option<String>,
    /// Its result.
    pub output: Option<FlatOutput>,
    /// Number of its inner calls.
    pub inner_calls: u64,
    /// The trace address: the index of each enclosing call among the calls of its caller, outermost first, then the
    /// call's own.
    pub place: Vec<u64>,
    /// The transaction.
    pub transaction_hash: Option<B256>,
    /// Index of the transaction in the block.
    pub transaction_index: Option<u64>,
}

/// The action of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlatAction {
    /// Calls a contract.
    Call {
        /// How.
        kind: FrameKind,
        /// The caller.
        from: Address,
        /// The contract.
        to: Address,
        /// Gas of the call.
        gas: u64,
        /// Call data.
        input: Bytes,
        /// Wei.
        value: U256,
    },
    /// Creates a contract.
    Create {
        /// How.
        kind: FrameKind,
        /// The creator.
        from: Address,
        /// Gas of the creation.
        gas: u64,
        /// Init code.
        init: Bytes,
        /// Wei.
        value: U256,
    },
    /// Destroys a contract.
    Destroy {
        /// The contract.
        address: Address,
        /// Receiver of its balance.
        receiver: Address,
        /// Its balance, wei.
        balance: U256,
    },
}

/// Result of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlatOutput {
    /// Of a call.
    Call {
        /// Gas that it used.
        gas_used: u64,
        /// Its output.
        output: Bytes,
    },
    /// Of a creation.
    Create {
        /// The contract.
        address: Address,
        /// Its code.
        code: Bytes,
        /// Gas that the creation used.
        gas_used: u64,
    },
}

impl FlatCall {
    /// Memory of the call, bytes, approximately.
    pub(super) fn size(&self) -> usize {
        let input = match &self.action {
            FlatAction::Call { input, .. } => input.len(),
            FlatAction::Create { init, .. } => init.len(),
            FlatAction::Destroy { .. } => 0,
        };
        let output = match &self.output {
            Some(FlatOutput::Call { output, .. }) => output.len(),
            Some(FlatOutput::Create { code, .. }) => code.len(),
            None => 0,
        };
        size_of::<Self>() + input + output + length_of(&self.error) + size_of_val(self.place.as_slice())
    }
}
