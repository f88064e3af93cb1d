//! What is needed to disassemble executed code.

use alloy_primitives::{Bytes, U256};
use serde::{Deserialize, Serialize};

use super::{length_of, length_of_bytes};

/// The instructions of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisassembledFrame {
    /// The instructions.
    pub operations: Vec<DisassembledOperation>,
    /// Data that the call returned.
    pub returned: Option<Bytes>,
    /// Why an instruction was refused.
    pub error: Option<String>,
}

/// An instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisassembledOperation {
    /// The instruction.
    pub opcode: u8,
    /// 1 for the outermost call.
    pub depth: u32,
    /// Values that it left on the stack.
    pub results: Vec<U256>,
    /// The call that it made. Boxed because few operations are calls, and a list of them is long.
    pub call: Option<Box<DisassembledCall>>,
    /// Position in the code, of jump destinations only.
    pub pc: Option<u64>,
}

/// The operands of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisassembledCall {
    /// Gas for the call.
    pub gas: U256,
    /// The contract, as it is on the stack.
    pub to: U256,
    /// Wei; `None` for calls without a value of their own.
    pub value: Option<U256>,
    /// Call data.
    pub input: Bytes,
    /// Index of the call's frame in the result, once it has returned.
    pub frame: Option<u32>,
}

impl DisassembledFrame {
    /// Memory of the frame, bytes, approximately.
    pub(super) fn size(&self) -> usize {
        let operations = self.operations.iter().map(DisassembledOperation::size).sum::<usize>();
        size_of::<Self>() + operations + length_of_bytes(&self.returned) + length_of(&self.error)
    }
}

impl DisassembledOperation {
    fn size(&self) -> usize {
        let call = self.call.as_ref().map_or(0, |call| size_of::<DisassembledCall>() + call.input.len());
        // A word of 32 bytes is encoded with its length.
        size_of::<Self>() + (size_of::<U256>() + 1) * self.results.len() + call
    }
}
