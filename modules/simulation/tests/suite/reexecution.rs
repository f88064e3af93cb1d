//! Blocks executed again: state roots after their transactions, and witnesses, from which a block is executed without a
//! database.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use tenon_api::{
    Account, BlockId, BlockNumber, ChainReader, ConsensusEngine, EMPTY_CODE_HASH, EMPTY_ROOT_HASH, Head, LocatedLog,
    LogFilter, Receipt, ReceiptOutcome, RecoveredBlock, SealedHeader, StateReader, StoreError, TrieReader,
    messages::{ExecutionWitness, GetExecutionWitness, GetIntermediateRoots},
};
use tenon_bus::{CallContext, MemoryBudget, MemoryLimits};
use tenon_chain::ChainSpec;
use tenon_execution_block::Executor;
use tenon_execution_interface::ExecutionError;
use tenon_sdk::{Failure, FailureCode, error_texts::RefusableAnswer as _};
use tenon_simulation::{CallLimits, CallResources};
use tenon_test_node::{LIMITS, MemoryChain, TestNode, native::NativeNode, resources, rules_of_blocks};

/// A chain that knows a block's parent by a witness, and nothing else.
#[derive(Clone)]
struct Witnessed(Arc<Known>);

struct Known {
    headers: Vec<Arc<SealedHeader>>,
    codes: HashMap<B256, Bytes>,
    nodes: HashMap<B256, Bytes>,
}

impl Witnessed {
    fn new(witness: &ExecutionWitness) -> Self {
        let by_hash = |items: &[Bytes]| items.iter().map(|item| (keccak256(item), item.clone())).collect();
        let (codes, nodes) = (by_hash(&witness.codes), by_hash(&witness.nodes));
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

impl TrieReader for Witnessed {
    fn node(&self, _: Option<B256>, _: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
        Ok(self.0.nodes.get(&hash).cloned())
    }
}

impl StateReader for Witnessed {
    fn account(&self, address: Address) -> Result<Option<Account>, StoreError> {
        tenon_chain::read_account(self, self.parent().state_root, address).map_err(lacking)
    }

    fn storage(&self, address: Address, slot: B256) -> Result<U256, StoreError> {
        let root = self.account(address)?.map_or(EMPTY_ROOT_HASH, |account| account.storage_root);
        if root == EMPTY_ROOT_HASH {
            return Ok(U256::ZERO);
        }
        tenon_chain::read_slot(self, root, address, slot).map_err(lacking)
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
        Arc::new(self.clone())
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
fn execute_from(
    witness: &ExecutionWitness,
    spec: &Arc<ChainSpec>,
    engine: &dyn ConsensusEngine,
    block: &Arc<RecoveredBlock>,
) -> Result<(), ExecutionError> {
    let chain = Witnessed::new(witness);
    let parent = Arc::clone(chain.parent());
    assert_eq!(parent.hash(), block.header.parent_hash);
    // An executor of its own knows no code.
    Executor::new(rules_of_blocks(spec)).execute(&chain, engine, Arc::clone(block), &parent).map(drop)
}

fn canonical_block(chain: &MemoryChain, number: u64) -> Arc<RecoveredBlock> {
    let hash = chain.canonical_hash(BlockNumber(number)).unwrap().unwrap();
    chain.block(hash).unwrap().unwrap()
}

#[tokio::test]
async fn every_block_is_executed_from_its_witness_which_has_nothing_superfluous() {
    let node = TestNode::with_conformance_chain(54);
    let _served = node.serve(LIMITS);
    for number in 1..=54 {
        let block = canonical_block(&node.chain, number);
        let witness = node.ask(GetExecutionWitness { block: BlockId::number(number) }).await.unwrap().unwrap();

        execute_from(&witness, &node.spec, &*node.engine, &block).unwrap_or_else(|error| panic!("{number}: {error}"));

        assert!(witness.nodes.is_sorted() && witness.codes.is_sorted(), "{number}");
        for lacks in 0..witness.nodes.len() {
            let mut less = witness.clone();
            less.nodes.remove(lacks);
            assert!(execute_from(&less, &node.spec, &*node.engine, &block).is_err(), "{number}: node {lacks}");
        }
        for lacks in 0..witness.codes.len() {
            let mut less = witness.clone();
            less.codes.remove(lacks);
            assert!(execute_from(&less, &node.spec, &*node.engine, &block).is_err(), "{number}: code {lacks}");
        }
    }
}

#[tokio::test]
async fn blocks_of_a_native_chain_are_executed_from_their_witnesses() {
    let node = NativeNode::new("reorg", LIMITS);
    let caller = CallContext::new();
    let head = node.chain.head().header.number;
    let mut with_transactions = 0;
    for number in 1..=head {
        let block = canonical_block(&node.chain, number);
        with_transactions += usize::from(!block.transactions.is_empty());
        let witness = node.bus.call(GetExecutionWitness { block: BlockId::number(number) }, &caller).await;
        let witness = witness.unwrap().unwrap();

        execute_from(&witness, &node.spec, &*node.engine, &block).unwrap_or_else(|error| panic!("{number}: {error}"));
    }
    assert!(with_transactions > 0);
}

#[tokio::test]
async fn roots_inside_a_block_lead_from_its_parent_to_its_end() {
    let node = TestNode::with_conformance_chain(54);
    let _served = node.serve(LIMITS);
    let (mut ends, mut recorded) = (0, 0);
    for number in 1..=54 {
        let block = canonical_block(&node.chain, number);
        let roots = node.ask(GetIntermediateRoots { block: block.hash() }).await.unwrap().unwrap();

        assert_eq!(roots.len(), block.transactions.len(), "{number}");
        let different: BTreeSet<_> = roots.iter().collect();
        assert_eq!(different.len(), roots.len(), "{number}: every transaction changes its sender");
        let receipts = node.chain.receipts(block.hash()).unwrap().unwrap();
        for (root, receipt) in roots.iter().zip(&*receipts) {
            // Receipts before Byzantium have the root.
            if let ReceiptOutcome::StateRoot(expected) = receipt.outcome {
                assert_eq!(*root, expected, "{number}");
                recorded += 1;
            }
        }
        // Without rewards, withdrawals and calls at its end a block ends with its last transaction.
        let is_bare = block.header.difficulty.is_zero() && block.withdrawals.iter().flatten().next().is_none();
        if is_bare && block.header.requests_hash.is_none() && !roots.is_empty() {
            assert_eq!(roots.last(), Some(&block.header.state_root), "{number}");
            ends += 1;
        }
    }
    assert!(ends + recorded > 0, "{ends} {recorded}");
}

#[tokio::test]
async fn roots_inside_blocks_of_a_native_chain_end_with_the_block() {
    let node = NativeNode::new("reorg", LIMITS);
    let caller = CallContext::new();
    let mut ends = 0;
    for number in 1..=node.chain.head().header.number {
        let block = canonical_block(&node.chain, number);
        let roots = node.bus.call(GetIntermediateRoots { block: block.hash() }, &caller).await.unwrap().unwrap();

        assert_eq!(roots.len(), block.transactions.len(), "{number}");
        let has_rewards = !node.engine.rewards(&block, &node.chain).unwrap().credits.is_empty();
        if !roots.is_empty() && !has_rewards {
            assert_eq!(roots.last(), Some(&block.header.state_root), "{number}");
            ends += 1;
        }
    }
    assert!(ends > 0);
}

#[tokio::test]
async fn blocks_that_are_unknown_or_first_have_no_witness_and_no_roots() {
    let node = TestNode::with_conformance_chain(3);
    let _served = node.serve(LIMITS);
    let genesis = canonical_block(&node.chain, 0).hash();
    let text = |failure: Failure| failure.message;

    let witness = |block| node.ask(GetExecutionWitness { block });
    assert_eq!(witness(BlockId::number(9)).await.or_failure().map_err(text), Err("block #9 not found".to_owned()));
    assert_eq!(
        witness(BlockId::number(0)).await.or_failure().map_err(text),
        Err("genesis is not traceable".to_owned())
    );
    let roots = |block| node.ask(GetIntermediateRoots { block });
    assert_eq!(roots(genesis).await.or_failure().map_err(text), Err("genesis is not traceable".to_owned()));
    assert_eq!(roots(B256::ZERO).await.or_failure().map_err(text), Err(format!("block {} not found", B256::ZERO)));
}

#[tokio::test]
async fn a_witness_beyond_its_bounds_is_refused_and_releases_its_memory() {
    let node = TestNode::with_conformance_chain(54);
    let short = CallLimits { trace_answer_bytes: 1000, ..LIMITS };
    let memory = MemoryBudget::new(MemoryLimits { total: 1 << 30, client: 1 << 30 });
    let _served = node.serve(CallResources { memory: memory.clone(), ..resources(short) });

    let refused = node.ask(GetExecutionWitness { block: BlockId::number(2) }).await.unwrap_err();

    assert_eq!(refused.code, FailureCode::LIMIT_EXCEEDED, "{}", refused.message);
    assert_eq!(memory.usage().held.iter().sum::<usize>(), 0);
}
