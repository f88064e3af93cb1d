//! A block without its transactions, as readers keep it in memory.

use std::sync::Arc;

use alloy_primitives::B256;
use tenon_api::{Header, RecoveredBlock, Withdrawal};

/// A block's body with the hashes of its transactions instead of its transactions.
#[derive(Debug)]
pub(crate) struct Outline {
    pub(crate) transactions: Arc<Vec<B256>>,
    pub(crate) ommers: Vec<Header>,
    pub(crate) withdrawals: Option<Vec<Withdrawal>>,
    /// Length of the block's RLP, bytes.
    pub(crate) size: u64,
}

impl Outline {
    /// Of a block in memory.
    pub(crate) fn of_block(block: &RecoveredBlock) -> Self {
        Self {
            transactions: Arc::new(block.transactions.iter().map(|transaction| transaction.hash).collect()),
            ommers: block.ommers.clone(),
            withdrawals: block.withdrawals.clone(),
            size: block.size,
        }
    }

    /// Approximate memory use.
    pub(crate) fn weight(&self) -> usize {
        let withdrawals = self.withdrawals.as_ref().map_or(0, Vec::len);
        200 + 32 * self.transactions.len() + 1_000 * self.ommers.len() + 50 * withdrawals
    }
}
