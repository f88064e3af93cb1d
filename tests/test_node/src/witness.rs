//! Executes blocks from their witnesses, without a database.

use std::{collections::HashMap, sync::Arc};

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use tenon_api::{
    Account, BlockNumber, ChainReader, ConsensusEngine, EMPTY_CODE_HASH, EMPTY_ROOT_HASH, Head, LocatedLog, LogFilter,
    Receipt, RecoveredBlock, SealedHeader, StateReader, StoreError, TrieReader, messages::ExecutionWitness,
};
use tenon_execution_block::Executor;
use tenon_execution_interface::{ChainFamily, ExecutionError};

use crate::MemoryChain;

/// A chain that knows a block's parent by a witness, and nothing else.
#[derive(Clone)]
struct Witnessed(Arc<Known>);

struct Known {
    headers: Vec<Arc<SealedHeader>>,
    codes: HashMap<B256, Bytes>,
    nodes: Arc<HashMap<B256, Bytes>>,
}

impl Witnessed {
    fn new(witness: &ExecutionWitness) -> Self {
        let by_hash = |items: &[Bytes]| items.iter().map(|item| (keccak256(item), item.clone())).collect();
        let (codes, nodes) = (by_hash(&witness.codes), Arc::new(by_hash(&witness.nodes)));
        Self(Arc::new(Known { headers: witness.headers.clone(), codes, nodes }))
    }

    fn parent(&self) -> &Arc<SealedHeader> {
        self.0.headers.first().unwrap()
    }
}

/// The error for data that the witness lacks. No test may cause it.
fn lacking(what: impl ToString) -> StoreError {
    StoreError::Corrupt { what: what.to_string() }
}

impl StateReader for Witnessed {
    fn account(&self, address: Address) -> Result<Option<Account>, StoreError> {
        tenon_chain::read_account(&*self.0.nodes, self.parent().state_root, address).map_err(lacking)
    }

    fn storage(&self, address: Address, slot: B256) -> Result<U256, StoreError> {
        let root = self.account(address)?.map_or(EMPTY_ROOT_HASH, |account| account.storage_root);
        if root == EMPTY_ROOT_HASH {
            return Ok(U256::ZERO);
        }
        tenon_chain::read_slot(&*self.0.nodes, root, address, slot).map_err(lacking)
    }

    fn code(&self, code_hash: B256) -> Result<Option<Bytes>, StoreError> {
        if code_hash == EMPTY_CODE_HASH {
            return Ok(Some(Bytes::new()));
        }
        Ok(self.0.codes.get(&code_hash).cloned())
    }

    fn block_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError> {
        let found = self.0.headers.iter().find(|header| header.number == number.0);
        found.map(|header| Some(header.hash())).ok_or_else(|| lacking(format!("hash of block {number}")))
    }
}

impl ChainReader for Witnessed {
    fn head(&self) -> Arc<Head> {
        let header = Arc::clone(self.parent());
        Arc::new(Head { header, total_difficulty: U256::ZERO, finalized: None, safe: None })
    }

    fn canonical_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError> {
        self.block_hash(number)
    }

    fn header(&self, hash: B256) -> Result<Option<Arc<SealedHeader>>, StoreError> {
        Ok(self.0.headers.iter().find(|header| header.hash() == hash).cloned())
    }

    fn block(&self, _: B256) -> Result<Option<Arc<RecoveredBlock>>, StoreError> {
        Ok(None)
    }

    fn receipts(&self, _: B256) -> Result<Option<Arc<Vec<Receipt>>>, StoreError> {
        Ok(None)
    }

    fn total_difficulty(&self, _: B256) -> Result<Option<U256>, StoreError> {
        Ok(None)
    }

    fn transaction_location(&self, _: B256) -> Result<Option<(B256, u64)>, StoreError> {
        Ok(None)
    }

    fn state_at(&self, number: BlockNumber) -> Result<Arc<dyn StateReader>, StoreError> {
        if number.0 != self.parent().number {
            return Err(lacking(format!("state of block {number}")));
        }
        Ok(Arc::new(self.clone()))
    }

    fn trie(&self) -> Arc<dyn TrieReader> {
        Arc::clone(&self.0.nodes) as _
    }

    fn logs(
        &self,
        _: BlockNumber,
        _: BlockNumber,
        _: &LogFilter,
        _: usize,
        _: &dyn Fn() -> bool,
    ) -> Result<Vec<LocatedLog>, StoreError> {
        Ok(Vec::new())
    }
}

/// Executes a block from a witness alone; every result is compared with its header.
///
/// # Errors
/// [`ExecutionError`], for instance if the witness lacks a part of the state.
pub fn execute_from(
    witness: &ExecutionWitness,
    rules: Arc<dyn ChainFamily>,
    engine: &dyn ConsensusEngine,
    block: &Arc<RecoveredBlock>,
) -> Result<(), ExecutionError> {
    let chain = Witnessed::new(witness);
    let parent = Arc::clone(chain.parent());
    assert_eq!(parent.hash(), block.header.parent_hash);
    // An executor of its own knows no code.
    Executor::new(rules).execute(&chain, engine, Arc::clone(block), &parent).map(drop)
}

/// The block of the canonical chain at this height.
pub fn canonical_block(chain: &MemoryChain, number: u64) -> Arc<RecoveredBlock> {
    let hash = chain.canonical_hash(BlockNumber(number)).unwrap();
    let block = hash.and_then(|hash| chain.block(hash).unwrap());
    block.unwrap_or_else(|| panic!("the chain has no block {number}"))
}
