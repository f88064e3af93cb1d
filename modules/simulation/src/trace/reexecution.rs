//! Executes a block of the chain again, with the same steps as when it was imported, and reports intermediate results
//! of its transactions (`debug_intermediateRoots`). Stores nothing.

use std::sync::Arc;

use alloy_primitives::B256;
use tenon_api::{
    BlockId, RecoveredBlock, SealedHeader, TrieReader,
    messages::{GetIntermediateRoots, TraceFailure, TracerDialect},
};
use tenon_bus::CallContext;
use tenon_execution_block::BlockExecution;
use tenon_execution_interface::{BlockOrigin, BlockState, Interrupt};
use tenon_simulation_interface::CallError;
use tenon_traces::{TraceError, execute_transaction_of_block, transaction_and_sender};

use crate::call::Calls;

impl Calls {
    /// `debug_intermediateRoots`: the state root after each transaction of a block of any branch. Ends before the first
    /// transaction that is not valid there, as in go-ethereum.
    ///
    /// A fee that a native chain charges for a failed transaction is included in the root after the next transaction,
    /// because the block writes it then.
    pub(crate) fn intermediate_roots(
        &self,
        request: &GetIntermediateRoots,
        caller: &CallContext,
    ) -> Result<Vec<B256>, TraceError> {
        let (block, parent) = self.block_and_parent(BlockId::hash(request.block))?;
        let state = self.state_after(&parent, caller)?;
        let mut execution = self.open_again(&block, &parent, state, self.trie_of(&parent, caller)?, caller)?;
        let mut roots = Vec::with_capacity(block.transactions.len());
        for (transaction, sender) in block.transactions.iter().zip(&block.senders) {
            if caller.should_stop() {
                return Err(CallError::CallerGone.into());
            }
            match execution.run_transaction(transaction, *sender) {
                Ok(()) => {}
                Err(rejection) if rejection.is_validity_unknown() => return Err(rejection.into()),
                Err(_) => break,
            }
            roots.push(execution.root_so_far()?);
        }
        Ok(roots)
    }

    /// A block that has a parent, and its parent.
    pub(super) fn block_and_parent(&self, id: BlockId) -> Result<(Arc<RecoveredBlock>, Arc<SealedHeader>), TraceError> {
        let not_found = || TraceError::unknown_block(id);
        let header = tenon_chain::resolve_block(&*self.chain, id)?.ok_or_else(not_found)?;
        if header.number == 0 {
            return Err(TraceFailure::Genesis.into());
        }
        let block = self.chain.block(header.hash())?.ok_or_else(not_found)?;
        let parent = self.chain.header(header.parent_hash)?;
        Ok((block, parent.ok_or_else(|| TraceError::unknown_parent(header.parent_hash))?))
    }

    /// A block before its first transaction, after the same opening steps as when it was imported.
    pub(super) fn open_again(
        &self,
        block: &RecoveredBlock,
        parent: &SealedHeader,
        state: BlockState,
        nodes: Arc<dyn TrieReader>,
        caller: &CallContext,
    ) -> Result<BlockExecution, TraceError> {
        let engine = &*self.engine;
        let author = engine.author(&block.header)?;
        let origin = BlockOrigin::Whole { chain: &*self.chain, engine, block, parent };
        let (family, interrupt) = (self.executor.family(), Interrupt::for_caller(caller, None));
        let mut execution = BlockExecution::watched(family, &block.header, author, state, interrupt, (), origin)?;
        execution.set_receipt_root_base(nodes, parent.state_root);
        execution.run_opening_calls()?;
        Ok(execution)
    }

    /// Executes all transactions of a block.
    pub(super) fn run_again(
        &self,
        execution: &mut BlockExecution,
        block: &RecoveredBlock,
        caller: &CallContext,
    ) -> Result<(), TraceError> {
        for index in 0..block.transactions.len() {
            if caller.should_stop() {
                return Err(CallError::CallerGone.into());
            }
            let Some((transaction, sender)) = transaction_and_sender(block, index) else { break };
            execute_transaction_of_block(execution, transaction, sender, TracerDialect::Ethereum, caller)?;
        }
        Ok(())
    }
}
