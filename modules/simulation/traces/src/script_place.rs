//! What a script can read about the transaction that it traces.

use alloy_primitives::B256;

/// What a script can read about the transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptPlace {
    /// Height of the block.
    pub block: u64,
    /// The transaction's block, its index there, and its hash; `None` for calls.
    pub transaction: Option<(B256, u64, B256)>,
    /// Gas limit of the transaction.
    pub gas_limit: u64,
}
