//! One simulated block: its header, its steps, its roots.

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use revm::context_interface::block::BlobExcessGasAndPrice;
use tenon_api::{
    Block, BlockRewards, ConsensusError, EMPTY_OMMERS_HASH, Header, RecoveredBlock, Transaction, Withdrawal,
    messages::{
        AccountOverride, BlockOverrides, BlockToSimulate, SimulatedBlock, SimulatedCall, SimulationFailure, StoredBlock,
    },
};
use tenon_execution_block::{BlockExecution, BlockOutcome};
use tenon_execution_interface::{BlockOrigin, ExecutionError};
use tenon_simulation_interface::CallError;

use super::{
    BLOCK_BYTES, SimulateError, Simulation,
    logs::LogRecorder,
    overrides,
    plan::PlannedBlock,
    state::{BlockChanges, SimulatedState},
};

/// A simulated block whose transactions are running.
pub(super) struct OpenBlock {
    pub(super) header: Header,
    pub(super) execution: BlockExecution<LogRecorder>,
    transactions: Vec<Arc<Transaction>>,
    senders: Vec<Address>,
    calls: Vec<SimulatedCall>,
    /// The block's blob price. A call that is exempt from it runs with another price.
    pub(super) blobs: Option<BlobExcessGasAndPrice>,
}

impl Simulation<'_> {
    /// Executes the next block, which becomes the parent of the following one.
    pub(super) fn run(&mut self, planned: PlannedBlock) -> Result<SimulatedBlock, SimulateError> {
        self.check_time()?;
        self.count(BLOCK_BYTES)?;
        let header = self.draft(&planned)?;
        let BlockToSimulate { overrides, withdrawals, state_overrides, calls, .. } = planned.wanted;
        let withdrawals = header.withdrawals_root.map(|_| withdrawals.unwrap_or_default());
        let author = self.calls.family.simulated_author(&header, overrides.fee_recipient, self.author);
        let mut block = self.open(header, author, state_overrides)?;
        self.set_context(&mut block, &overrides);
        block.blobs = block.execution.evm_mut().ctx.block.blob_excess_gas_and_price;
        block.execution.run_opening_calls().map_err(CallError::from)?;
        for call in calls {
            self.check_time()?;
            let (transaction, sender, done) = self.run_call(&mut block, call)?;
            self.count_call(transaction.input.len(), &done)?;
            block.transactions.push(Arc::new(transaction));
            block.senders.push(sender);
            block.calls.push(done);
        }
        self.check_time()?;
        self.close(block, withdrawals)
    }

    /// The header as far as it is known before execution.
    fn draft(&self, planned: &PlannedBlock) -> Result<Header, SimulateError> {
        let (parent, overrides) = (&self.parent, &planned.wanted.overrides);
        let mut header = Header {
            parent_hash: parent.hash(),
            ommers_hash: EMPTY_OMMERS_HASH,
            beneficiary: overrides.fee_recipient.unwrap_or(parent.beneficiary),
            difficulty: parent.difficulty,
            number: planned.number,
            gas_limit: overrides.gas_limit.unwrap_or(parent.gas_limit),
            timestamp: planned.timestamp,
            mix_hash: overrides.prev_randao.unwrap_or_default(),
            ..Header::default()
        };
        header.base_fee_per_gas = self.base_fee(overrides.base_fee_per_gas)?;
        self.calls.family.complete_simulated(&mut header, parent, &planned.wanted);
        Ok(header)
    }

    /// Without validation senders do not pay for gas, so its price is zero.
    fn base_fee(&self, given: Option<U256>) -> Result<Option<u64>, SimulateError> {
        let Some(next) = self.calls.executor.spec().next_base_fee(&self.parent) else { return Ok(None) };
        match given {
            None if self.rules.validates => Ok(Some(next)),
            None => Ok(Some(0)),
            Some(wei) => u64::try_from(wei).map(Some).map_err(|_| SimulationFailure::BaseFeeTooLarge { wei }.into()),
        }
    }

    /// Applies the overrides of accounts, and prepares the EVM for the block.
    fn open(
        &self,
        header: Header,
        author: Address,
        state_overrides: Vec<(Address, AccountOverride)>,
    ) -> Result<OpenBlock, CallError> {
        let executor = &self.calls.executor;
        let family = executor.family();
        let mut state = executor.state_over(Arc::<SimulatedState>::clone(&self.state));
        state.count_in(self.calls.run_memory(self.origin));
        let precompiles = family.rules(&header)?.precompiles;
        let moved = overrides::apply(state_overrides, precompiles, &mut state)?;
        let mut execution = BlockExecution::watched(
            family,
            &header,
            author,
            state,
            self.interrupt.clone(),
            LogRecorder::new(self.rules.traces_transfers),
            BlockOrigin::Simulated,
        )?;
        execution.set_receipt_root_base(Arc::<SimulatedState>::clone(&self.state), self.parent.state_root);
        execution.evm_mut().precompiles.apply(&moved);
        Ok(OpenBlock {
            header,
            execution,
            transactions: Vec::new(),
            senders: Vec::new(),
            calls: Vec::new(),
            blobs: None,
        })
    }

    /// Relaxes the rules for calls, and applies overrides that are not in the header.
    fn set_context(&self, block: &mut OpenBlock, overrides: &BlockOverrides) {
        let context = &mut block.execution.evm_mut().ctx;
        context.cfg.disable_nonce_check = !self.rules.validates;
        context.cfg.disable_eip3607 = true;
        context.cfg.tx_gas_limit_cap = Some(u64::MAX);
        context.cfg.max_blobs_per_tx = None;
        self.calls.family.override_simulated(overrides, &mut context.block);
    }

    /// Ends the block with its last steps, computes its roots and makes it the parent of the next one.
    fn close(
        &mut self,
        block: OpenBlock,
        withdrawals: Option<Vec<Withdrawal>>,
    ) -> Result<SimulatedBlock, SimulateError> {
        let OpenBlock { mut header, execution, transactions, senders, calls, blobs: _ } = block;
        header.withdrawals_root = withdrawals.as_deref().map(tenon_chain::withdrawals_root);
        let draft = tenon_chain::assemble_block(tenon_chain::seal(header.clone()), Vec::new(), Vec::new(), withdrawals);
        let rewards = self.rewards(&draft).map_err(CallError::from)?;
        let outcome = execution.finish(&draft, &rewards).map_err(|error| self.closing_error(error))?;
        let results = outcome.results();
        let changes = self.changes(&header, &outcome)?;
        drop(outcome.state);
        header = Header {
            state_root: changes.update.root,
            transactions_root: tenon_chain::transactions_root(&transactions),
            receipts_root: results.receipts_root,
            logs_bloom: results.logs_bloom,
            gas_used: outcome.gas_used,
            blob_gas_used: header.blob_gas_used.map(|_| outcome.blob_gas_used),
            requests_hash: outcome.requests_hash,
            ..header
        };
        let sealed = tenon_chain::seal(header);
        self.parent = Arc::new(sealed.clone());
        self.total_difficulty = self.total_difficulty.saturating_add(sealed.difficulty);
        self.state_mut()?.add(sealed.hash(), changes);
        let block = tenon_chain::assemble_block(sealed, transactions, Vec::new(), draft.withdrawals);
        let block = Arc::new(RecoveredBlock { block, senders });
        let stored = StoredBlock { block, total_difficulty: self.total_difficulty, is_canonical: false };
        Ok(SimulatedBlock { stored, calls })
    }

    /// The rewards of the block.
    fn rewards(&self, draft: &Block) -> Result<BlockRewards, ConsensusError> {
        if !self.calls.family.client_behaviour().pays_simulated_blocks {
            return Ok(BlockRewards::default());
        }
        self.calls.engine.rewards(draft, &*self.calls.chain)
    }

    fn closing_error(&self, error: ExecutionError) -> CallError {
        // An interrupted system call reports only that it was stopped, so the reason is determined here.
        self.check_time().err().unwrap_or_else(|| error.into())
    }

    /// The changes of the block, with the state root after it.
    fn changes(&self, header: &Header, outcome: &BlockOutcome) -> Result<BlockChanges, CallError> {
        let state = &outcome.state;
        let mut accounts = state.changes();
        let codes = state.new_codes(&accounts)?;
        let previous = |address| state.account_before(address);
        let update = tenon_chain::update_state_trie(&*self.state, self.parent.state_root, &mut accounts, &previous)
            .map_err(|source| ExecutionError::Trie { number: header.number.into(), source })?;
        Ok(BlockChanges { accounts, codes, update })
    }

    /// The state, while no block is running on it.
    fn state_mut(&mut self) -> Result<&mut SimulatedState, SimulateError> {
        Arc::get_mut(&mut self.state).ok_or(SimulateError::StateInUse)
    }
}
