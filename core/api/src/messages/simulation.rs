//! Simulating blocks that are on no chain. Topic `0x0304`.

use alloy_primitives::{Address, B256, Bytes};
use serde::{Deserialize, Serialize};

use super::{AccountOverride, BlockOverrides, CallRequest, SimulationFailure, StoredBlock, request};
use crate::{BlockId, Log, Withdrawal};

/// Simulates blocks on top of a block, without keeping them (`eth_simulateV1`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Simulate {
    /// The block that the first simulated one follows.
    pub base: BlockId,
    /// The blocks, ascending by height; gaps between heights are filled with empty blocks.
    pub blocks: Vec<BlockToSimulate>,
    /// Reports moved coins as logs, as if coins were a token (ERC-7528).
    pub traces_transfers: bool,
    /// Validates calls like transactions: nonce and base fee.
    pub validates: bool,
}
request!(Simulate => Result<Vec<SimulatedBlock>, SimulationFailure>, topic 0x0304, schema 4, CallEvm);

/// A block to simulate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockToSimulate {
    /// Overrides of the block.
    pub overrides: BlockOverrides,
    /// Root of the parent beacon block.
    pub beacon_root: Option<B256>,
    /// Withdrawals of the block.
    pub withdrawals: Option<Vec<Withdrawal>>,
    /// Overrides of accounts, from this block on.
    pub state_overrides: Vec<(Address, AccountOverride)>,
    /// Its transactions.
    pub calls: Vec<CallRequest>,
}

/// A simulated block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulatedBlock {
    /// The block; its transactions have no signatures.
    pub stored: StoredBlock,
    /// Outcome of each of its transactions.
    pub calls: Vec<SimulatedCall>,
}

/// Outcome of a transaction of a simulated block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulatedCall {
    /// Returned data; empty if it failed.
    pub returned: Bytes,
    /// Its logs.
    pub logs: Vec<SimulatedLog>,
    /// Gas that it paid for.
    pub gas_used: u64,
    /// Gas that it used before refunds.
    pub max_gas_used: u64,
    /// Why it failed, if it did.
    pub failure: Option<SimulatedFailure>,
}

/// Why a transaction of a simulated block failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SimulatedFailure {
    /// It reverted.
    Reverted {
        /// Its output.
        output: Bytes,
    },
    /// The EVM halted.
    Halted {
        /// Why, in the words that traces show too.
        cause: String,
        /// Whether the transaction had less gas than requested, so that more might have helped.
        is_gas_capped: bool,
    },
}

/// A log of a simulated block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulatedLog {
    /// Position among all logs of the block, those of failed calls counted.
    pub index: u64,
    /// The log.
    pub log: Log,
}
