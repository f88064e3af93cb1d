//! Error texts for replayed blocks and transactions, in one table for each family.

use std::fmt::Display;

use alloy_primitives::B256;
use tenon_api::BlockId;

/// The error texts of one family.
pub struct ReplayTexts {
    /// A transaction is unknown.
    pub unknown_transaction: fn(B256) -> String,
    /// The block of a known transaction is missing.
    pub unknown_block_of_transaction: fn(B256) -> String,
    /// A block is unknown.
    pub unknown_block: fn(BlockId) -> String,
    /// The parent of a block is unknown.
    pub unknown_parent: fn(B256) -> String,
    /// The block with this hash has no transaction of this index.
    pub index_out_of_range: fn(u64, B256) -> String,
    /// How a transaction is named in the error of its execution.
    pub transaction_name: fn(B256) -> String,
    /// Why bytes are not a block; receives the decoder's own error.
    pub undecodable: fn(&[u8], &dyn Display) -> String,
}
