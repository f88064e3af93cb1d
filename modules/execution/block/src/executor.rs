//! Executes a block and collects all its changes.

use std::sync::Arc;

use alloy_primitives::{B256, Bytes, U256};
use tenon_api::{
    AccountChange, BlockCommit, BlockNumber, ChainReader, ConsensusEngine, Header, Receipt, RecoveredBlock,
    SealedHeader, StateReader, StoreError, TrieNodeWrite, TriePosition, Unlimited,
};
use tenon_bus::spans;
use tenon_chain::{ChainSpec, TrieUpdate};
use tenon_execution_interface::{BlockOrigin, BlockState, ChainFamily, CodeCache, ExecutionError};

use crate::execution::{BlockExecution, BlockOutcome, BlockResults};

/// State changes of a block, in the database's form.
pub struct StateChanges {
    /// The state root after the block.
    pub root: B256,
    accounts: Vec<AccountChange>,
    codes: Vec<(B256, Bytes)>,
    trie_nodes: Vec<TrieNodeWrite>,
    superseded_trie_nodes: Vec<(TriePosition, B256)>,
}

impl StateChanges {
    /// The changed accounts.
    pub fn accounts(&self) -> &[AccountChange] {
        &self.accounts
    }

    /// The changed accounts.
    pub fn into_accounts(self) -> Vec<AccountChange> {
        self.accounts
    }
}

/// A block that was executed and matches its header, except for the state root, which is not computed yet.
pub struct ExecutedBlock {
    block: Arc<RecoveredBlock>,
    outcome: BlockOutcome,
}

/// Executes blocks by the rules of one chain. Cheap to clone: clones share the cache of analysed code.
#[derive(Clone)]
pub struct Executor {
    family: Arc<dyn ChainFamily>,
    codes: CodeCache,
}

impl Executor {
    /// An executor for the chain of this family.
    pub fn new(family: Arc<dyn ChainFamily>) -> Self {
        Self { family, codes: CodeCache::default() }
    }

    /// Executes a block over its parent's state, which must be canonical, and compares the results with its header.
    ///
    /// # Errors
    /// [`ExecutionError`]: the first difference, or why the block could not be executed.
    pub fn execute(
        &self,
        chain: &dyn ChainReader,
        engine: &dyn ConsensusEngine,
        block: Arc<RecoveredBlock>,
        parent: &SealedHeader,
    ) -> Result<BlockCommit, ExecutionError> {
        let executed = self.run(chain, engine, block, parent)?;
        self.root(chain, executed, parent)
    }

    /// The first half of [`Executor::execute`]: everything except the state root.
    ///
    /// # Errors
    /// See [`Executor::execute`].
    pub fn run(
        &self,
        chain: &dyn ChainReader,
        engine: &dyn ConsensusEngine,
        block: Arc<RecoveredBlock>,
        parent: &SealedHeader,
    ) -> Result<ExecutedBlock, ExecutionError> {
        let state = self.state_after(chain, parent.number.into())?;
        self.run_over(chain, engine, block, parent, state)
    }

    /// Executes a block of another branch over its parent's state, and compares the results with its header.
    ///
    /// # Errors
    /// See [`Executor::execute`].
    pub fn execute_side_block(
        &self,
        chain: &dyn ChainReader,
        engine: &dyn ConsensusEngine,
        block: Arc<RecoveredBlock>,
        parent: &SealedHeader,
        state: Arc<dyn StateReader>,
    ) -> Result<BlockCommit, ExecutionError> {
        let executed = self.run_over(chain, engine, block, parent, self.state_over(state))?;
        self.root(chain, executed, parent)
    }

    fn run_over(
        &self,
        chain: &dyn ChainReader,
        engine: &dyn ConsensusEngine,
        block: Arc<RecoveredBlock>,
        parent: &SealedHeader,
        state: BlockState,
    ) -> Result<ExecutedBlock, ExecutionError> {
        let _span = spans::span("block", "execute");
        self.check_size(&block)?;
        let author = engine.author(&block.header)?;
        let trie = (chain.trie_of(parent, Arc::new(Unlimited))?, parent.state_root);
        let origin = BlockOrigin::Whole { chain, engine, block: &block, parent };
        let mut execution = BlockExecution::begin(&self.family, &block.header, author, state, trie, origin)?;
        run_transactions(&mut execution, &block)?;
        let rewards = engine.rewards(&block, chain)?;
        let outcome = execution.finish(&block, &rewards)?;
        let results = outcome.results();
        compare_results(block.header.header(), &outcome, &results)?;
        Ok(ExecutedBlock { block, outcome })
    }

    /// The second half of [`Executor::execute`]: the state root, and the database's changes.
    ///
    /// # Errors
    /// See [`Executor::execute`].
    pub fn root(
        &self,
        chain: &dyn ChainReader,
        executed: ExecutedBlock,
        parent: &SealedHeader,
    ) -> Result<BlockCommit, ExecutionError> {
        let _span = spans::span("block", "state root");
        let ExecutedBlock { block, outcome } = executed;
        let mut changes = self.state_changes(chain, parent, &outcome.state)?;
        compare(block.number(), "state root", changes.root, block.header.state_root)?;
        if let Some(extra) = outcome.extra_trie {
            changes.trie_nodes.extend(extra.writes);
            changes.superseded_trie_nodes.extend(extra.superseded);
        }
        Ok(assemble(chain, block, parent, outcome.receipts, changes)?)
    }

    /// Begins a block on a canonical parent.
    ///
    /// # Errors
    /// [`ExecutionError`] if the parent's state cannot be read, or the engine refuses the header's author.
    pub fn begin(
        &self,
        chain: &dyn ChainReader,
        engine: &dyn ConsensusEngine,
        header: &SealedHeader,
        parent: &SealedHeader,
        origin: BlockOrigin<'_>,
    ) -> Result<BlockExecution, ExecutionError> {
        let state = self.state_after(chain, parent.number.into())?;
        let author = engine.author(header)?;
        BlockExecution::begin(
            &self.family,
            header,
            author,
            state,
            (chain.trie_of(parent, Arc::new(Unlimited))?, parent.state_root),
            origin,
        )
    }

    /// The state after a canonical block, for execution.
    pub(crate) fn state_after(&self, chain: &dyn ChainReader, number: BlockNumber) -> Result<BlockState, StoreError> {
        Ok(self.state_over(chain.state_at(number)?))
    }

    /// A state for execution.
    pub fn state_over(&self, parent: Arc<dyn StateReader>) -> BlockState {
        BlockState::new(parent, self.codes.clone())
    }

    /// A state for execution with an empty code cache, so that all code is read from `parent`.
    pub fn state_with_empty_code_cache(&self, parent: Arc<dyn StateReader>) -> BlockState {
        BlockState::new(parent, CodeCache::default())
    }

    /// The chain's rules.
    pub fn spec(&self) -> &Arc<ChainSpec> {
        self.family.spec()
    }

    /// The chain's family.
    pub const fn family(&self) -> &Arc<dyn ChainFamily> {
        &self.family
    }

    /// Converts the state changes of a block into the database's form.
    ///
    /// # Errors
    /// [`ExecutionError`] if the parent's state or trie cannot be read.
    pub fn state_changes(
        &self,
        chain: &dyn ChainReader,
        parent: &SealedHeader,
        state: &BlockState,
    ) -> Result<StateChanges, ExecutionError> {
        let number = BlockNumber(parent.number).next();
        let mut accounts = state.changes();
        let codes = state.new_codes(&accounts)?;
        let previous = |address| state.account_before(address);
        let nodes = chain.trie_of(parent, Arc::new(Unlimited))?;
        let TrieUpdate { root, writes, superseded } =
            tenon_chain::update_state_trie(&*nodes, parent.state_root, &mut accounts, &previous)
                .map_err(|source| ExecutionError::Trie { number, source })?;
        Ok(StateChanges { root, accounts, codes, trie_nodes: writes, superseded_trie_nodes: superseded })
    }

    fn check_size(&self, block: &RecoveredBlock) -> Result<(), ExecutionError> {
        let limit = self.family.rules(&block.header)?.max_block_bytes;
        if block.size <= limit {
            return Ok(());
        }
        let (computed, expected) = (format!("{} bytes", block.size), format!("{limit} bytes at most"));
        Err(ExecutionError::Mismatch { number: block.number(), what: "size", computed, expected })
    }
}

fn run_transactions(execution: &mut BlockExecution, block: &RecoveredBlock) -> Result<(), ExecutionError> {
    for (index, (transaction, sender)) in block.transactions.iter().zip(&block.senders).enumerate() {
        if let Err(rejection) = execution.run_transaction(transaction, *sender) {
            let reason = rejection.unless_unreadable(block.number())?;
            return Err(ExecutionError::Transaction { number: block.number(), index, hash: transaction.hash, reason });
        }
    }
    Ok(())
}

/// Joins a block and its results to the value that changes the database.
///
/// # Errors
/// [`StoreError`] if the parent's difficulty cannot be read.
pub fn assemble(
    chain: &dyn ChainReader,
    block: Arc<RecoveredBlock>,
    parent: &SealedHeader,
    receipts: Vec<Receipt>,
    changes: StateChanges,
) -> Result<BlockCommit, StoreError> {
    let parent_difficulty = chain.total_difficulty(parent.hash())?.unwrap_or(U256::ZERO);
    Ok(BlockCommit {
        total_difficulty: parent_difficulty.saturating_add(block.header.difficulty),
        block,
        receipts: Arc::new(receipts),
        accounts: changes.accounts,
        codes: changes.codes,
        trie_nodes: changes.trie_nodes,
        superseded_trie_nodes: changes.superseded_trie_nodes,
    })
}

fn compare_results(header: &Header, outcome: &BlockOutcome, results: &BlockResults) -> Result<(), ExecutionError> {
    let number = BlockNumber(header.number);
    compare(number, "gas used", outcome.gas_used, header.gas_used)?;
    if let Some(blob_gas_used) = header.blob_gas_used {
        compare(number, "blob gas used", outcome.blob_gas_used, blob_gas_used)?;
    }
    compare(number, "receipts root", results.receipts_root, header.receipts_root)?;
    compare(number, "logs bloom", results.logs_bloom, header.logs_bloom)?;
    if let Some(requests_hash) = outcome.requests_hash {
        compare(number, "requests hash", requests_hash, header.requests_hash.unwrap_or_default())?;
    }
    Ok(())
}

fn compare<T: PartialEq + std::fmt::Display>(
    number: BlockNumber,
    what: &'static str,
    computed: T,
    expected: T,
) -> Result<(), ExecutionError> {
    if computed == expected {
        return Ok(());
    }
    let (computed, expected) = (computed.to_string(), expected.to_string());
    Err(ExecutionError::Mismatch { number, what, computed, expected })
}
