//! Chains in memory for the tests of this crate.

use std::sync::Arc;

use tenon_api::{Block, Header, RecoveredBlock, SealedHeader};
use tenon_memory_chain::MemoryChain;

/// A chain of only this block, with an empty state.
pub(crate) fn chain_from(genesis: &SealedHeader) -> MemoryChain {
    let chain = MemoryChain::with_accounts([]);
    add(&chain, block_of(genesis.clone(), Vec::new()));
    chain
}

/// Adds a block as the new head.
pub(crate) fn add(chain: &MemoryChain, block: Block) {
    chain.push(Arc::new(RecoveredBlock { block, senders: Vec::new() }));
}

/// A block without transactions.
pub(crate) fn block_of(header: SealedHeader, ommers: Vec<Header>) -> Block {
    Block { header, transactions: Vec::new(), ommers, withdrawals: None, size: 600 }
}
