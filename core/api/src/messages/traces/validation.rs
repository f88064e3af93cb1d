//! The tree of calls with the facts that ERC-7562 restricts in the validation of a user operation.

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

use super::{ENCODED_HASH, FrameKind, TracedLog, length_of, length_of_bytes};

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidationFrame {
    /// Number of enclosing calls.
    pub depth: u32,
    /// Kind of the call.
    pub kind: FrameKind,
    /// The caller.
    pub from: Address,
    /// The contract called or created.
    pub to: Option<Address>,
    /// Value sent with the call, wei.
    pub value: Option<U256>,
    /// Gas of the call.
    pub gas: u64,
    /// Gas that it used.
    pub gas_used: u64,
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
    /// Slots read and written.
    pub accessed_slots: AccessedSlots,
    /// Operand of each EXTCODESIZE, EXTCODECOPY and EXTCODEHASH, in order, with repetitions.
    pub inspected_code: Vec<String>,
    /// Instructions, and how often each ran.
    pub opcodes: Vec<(u8, u64)>,
    /// Contracts among these addresses, with the lengths of their code.
    pub contract_sizes: Vec<(Address, ContractSize)>,
    /// Whether it ran out of gas.
    pub is_out_of_gas: bool,
    /// Inputs of KECCAK256.
    pub hashed: Vec<Bytes>,
}

/// Slots that a call accessed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessedSlots {
    /// Slots read before they were written, and the values read.
    pub reads: Vec<(B256, Vec<B256>)>,
    /// Slots written, and how often.
    pub writes: Vec<(B256, u64)>,
    /// Transient slots read, and how often.
    pub transient_reads: Vec<(B256, u64)>,
    /// Transient slots written, and how often.
    pub transient_writes: Vec<(B256, u64)>,
}

/// Length of a contract's code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContractSize {
    /// The length, bytes.
    pub length: u64,
    /// The first instruction that inspected the code.
    pub opcode: u8,
}

impl ValidationFrame {
    /// Memory of the call, bytes, approximately.
    pub(super) fn size(&self) -> usize {
        let bytes = self.input.len() + length_of_bytes(&self.output);
        let texts = length_of(&self.error) + length_of(&self.revert_reason);
        let logs = self.logs.iter().map(TracedLog::size).sum::<usize>();
        let inspected = self.inspected_code.iter().map(|text| size_of::<String>() + text.len()).sum::<usize>();
        let counts = size_of_val(self.opcodes.as_slice()) + size_of_val(self.contract_sizes.as_slice());
        let hashed = self.hashed.iter().map(|input| size_of::<Bytes>() + input.len()).sum::<usize>();
        size_of::<Self>() + bytes + texts + logs + self.accessed_slots.size() + inspected + counts + hashed
    }
}

impl AccessedSlots {
    fn size(&self) -> usize {
        let reads = self.reads.iter().map(|read| size_of_val(read) + ENCODED_HASH * read.1.len()).sum::<usize>();
        [&self.writes, &self.transient_reads, &self.transient_writes]
            .into_iter()
            .fold(reads, |size, counts| size + size_of_val(counts.as_slice()))
    }
}
