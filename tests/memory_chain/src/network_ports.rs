//! The ports of a node that a network service uses, for tests of the network alone: a chain in memory that executes
//! nothing, and an empty pool.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};
use tenon_api::{
    BatchObserver, Block, BlockPort, BlockVerdict, ChainReader as _, EMPTY_OMMERS_HASH, EMPTY_ROOT_HASH, FailedBlock,
    Header, NativeSeal, PeerTransactions, RecoveredTransaction, SealedHeader, StoreError, SubmitError,
};

use crate::MemoryChain;

/// The header of an empty native block.
pub fn header_after(parent_hash: B256, number: u64) -> SealedHeader {
    tenon_chain::seal(Header {
        parent_hash,
        number,
        difficulty: U256::from(1),
        ommers_hash: EMPTY_OMMERS_HASH,
        transactions_root: EMPTY_ROOT_HASH,
        native_seal: Some(NativeSeal::default()),
        ..Header::default()
    })
}

/// A chain of `blocks` empty blocks, with its genesis. Equal for equal numbers.
pub fn chain_of(blocks: u64) -> MemoryChain {
    let chain = MemoryChain::default();
    let mut parent = B256::ZERO;
    for number in 0..blocks {
        let header = header_after(parent, number);
        parent = header.hash();
        chain.push_header(header);
    }
    chain
}

/// A port for blocks that makes every block whose parent is the head the new head. Executes nothing.
pub struct NextBlocks(pub Arc<MemoryChain>);

impl BlockPort for NextBlocks {
    fn verify_header(&self, header: &SealedHeader) -> BlockVerdict {
        let is_next = header.parent_hash == self.0.head().header.hash();
        if is_next { BlockVerdict::Head } else { BlockVerdict::ParentUnknown }
    }

    fn insert(&self, block: Block) -> BlockVerdict {
        let verdict = self.verify_header(&block.header);
        if verdict == BlockVerdict::Head {
            self.0.push_header(block.header);
        }
        verdict
    }

    fn import(
        &self,
        blocks: Box<dyn Iterator<Item = Block> + Send>,
        observer: &mut dyn BatchObserver,
    ) -> Result<(), FailedBlock> {
        for block in blocks {
            let (number, hash) = (block.number(), block.hash());
            match self.insert(block) {
                BlockVerdict::Head => observer.passed(number, hash),
                verdict => return Err(FailedBlock { number: Some(number), hash: Some(hash), verdict }),
            }
        }
        Ok(())
    }
}

/// A pool without transactions.
pub struct EmptyPool;

impl PeerTransactions for EmptyPool {
    fn offer(&self, _raw: &[Bytes]) {}

    fn pending(&self) -> Vec<RecoveredTransaction> {
        Vec::new()
    }

    fn submit_own(&self, _raw: &[u8]) -> Result<(), SubmitError> {
        Ok(())
    }

    fn next_nonce(&self, _account: Address) -> Result<u64, StoreError> {
        Ok(0)
    }
}
