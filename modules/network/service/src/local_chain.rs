//! The stored chain as the synchronisation sees it.

use std::sync::Arc;

use alloy_primitives::{B256, U256};
use tenon_api::{BlockNumber, ChainReader, StoreError};
use tenon_network_sync::{LocalChain, LocalHead};

/// Reads the chain. After a database error it returns nothing, and the blocks are requested again.
#[derive(Clone)]
pub(crate) struct StoredChain {
    pub(crate) chain: Arc<dyn ChainReader>,
    pub(crate) genesis: B256,
}

impl LocalChain for StoredChain {
    fn head(&self) -> LocalHead {
        let head = self.chain.head();
        let (header, total_difficulty) = (&head.header, head.total_difficulty);
        LocalHead { number: header.number, hash: header.hash(), total_difficulty, timestamp: header.timestamp }
    }

    fn committed(&self) -> (u64, B256) {
        let finalized = self.chain.head().finalized.unwrap_or(BlockNumber::GENESIS);
        self.canonical_hash(finalized.0).map_or((0, self.genesis), |hash| (finalized.0, hash))
    }

    fn canonical_hash(&self, number: u64) -> Option<B256> {
        read(self.chain.canonical_hash(BlockNumber(number))).flatten()
    }

    fn is_stored(&self, hash: &B256) -> bool {
        read(self.chain.header(*hash)).flatten().is_some()
    }

    fn total_difficulty(&self, hash: &B256) -> Option<U256> {
        read(self.chain.total_difficulty(*hash)).flatten()
    }
}

fn read<T>(result: Result<T, StoreError>) -> Option<T> {
    result.inspect_err(|error| tracing::warn!(%error, "the chain cannot be read to check a peer's blocks")).ok()
}
