//! One simulated block: its header, its steps, its roots.

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use revm::context_interface::block::BlobExcessGasAndPrice;
use tenon_api::{
    Block, BlockRewards, EMPTY_OMMERS_HASH, Failure, Header, NativeSeal, RecoveredBlock, StoreError, Transaction,
    Withdrawal,
    messages::{AccountOverride, BlockOverrides, BlockToSimulate, SimulatedBlock, SimulatedCall, StoredBlock},
};
use tenon_chain::Fork;

use super::{
    BLOCK_BYTES, Simulation,
    logs::LogRecorder,
    overrides,
    plan::PlannedBlock,
    state::{BlockChanges, SimulatedState},
};
use crate::{
    ExecutionError,
    block::{BlockExecution, BlockOutcome},
    family::BlockOrigin,
};

/// A simulated block whose transactions are running.
pub(super) struct OpenBlock {
    pub(super) header: Header,
    pub(super) execution: BlockExecution<LogRecorder>,
    transactions: Vec<Arc<Transaction>>,
    senders: Vec<Address>,
    calls: Vec<SimulatedCall>,
    /// The block's blob price; a call that is free of it sees another.
    pub(super) blobs: Option<BlobExcessGasAndPrice>,
}

impl Simulation<'_> {
    /// Executes the next block and stands after it.
    pub(super) fn run(&mut self, planned: PlannedBlock) -> Result<SimulatedBlock, Failure> {
        self.check_time()?;
        self.count(BLOCK_BYTES)?;
        let header = self.draft(&planned)?;
        let BlockToSimulate { overrides, withdrawals, state_overrides, calls, .. } = planned.wanted;
        let withdrawals = header.withdrawals_root.map(|_| withdrawals.unwrap_or_default());
        let author = self.author_of(&header, overrides.fee_recipient);
        let mut block = self.open(header, author, state_overrides)?;
        self.set_context(&mut block, &overrides);
        block.blobs = block.execution.evm_mut().ctx.block.blob_excess_gas_and_price;
        block.execution.run_opening_calls();
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
    fn draft(&self, planned: &PlannedBlock) -> Result<Header, Failure> {
        let (spec, parent) = (self.calls.executor.spec(), &self.parent);
        let BlockToSimulate { overrides, beacon_root, .. } = &planned.wanted;
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
        if spec.native.is_some() {
            header.native_seal = Some(NativeSeal::default());
            header.difficulty = overrides.difficulty.unwrap_or(header.difficulty);
            return Ok(header);
        }
        let fork = spec.fork_of(&header);
        if fork >= Fork::Shanghai {
            // Nobody mines there, though the base may be a genesis block that has a difficulty.
            header.difficulty = U256::ZERO;
            header.withdrawals_root = Some(tenon_chain::withdrawals_root(&[]));
        } else if fork < Fork::Paris {
            header.difficulty = overrides.difficulty.unwrap_or(header.difficulty);
        }
        if fork >= Fork::Cancun {
            let is_parent_before = spec.fork_of(parent) < Fork::Cancun;
            let excess = if is_parent_before { Some(0) } else { spec.next_excess_blob_gas(parent, header.timestamp) };
            header.blob_gas_used = Some(0);
            header.excess_blob_gas = Some(excess.unwrap_or_default());
            header.parent_beacon_block_root = Some(beacon_root.unwrap_or_default());
        }
        Ok(header)
    }

    /// Without validation nobody needs to pay for gas, so that it costs nothing.
    fn base_fee(&self, given: Option<U256>) -> Result<Option<u64>, Failure> {
        let Some(next) = self.calls.executor.spec().next_base_fee(&self.parent) else { return Ok(None) };
        match given {
            None if self.rules.validates => Ok(Some(next)),
            None => Ok(Some(0)),
            Some(wei) => {
                let too_high = |_| Failure::invalid_params(format!("baseFeePerGas {wei} is above 2^64 - 1"));
                u64::try_from(wei).map(Some).map_err(too_high)
            }
        }
    }

    /// Applies what is pretended about accounts, and makes the EVM ready for the block.
    fn open(
        &self,
        header: Header,
        author: Address,
        state_overrides: Vec<(Address, AccountOverride)>,
    ) -> Result<OpenBlock, Failure> {
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
        execution.root_receipts_on(Arc::<SimulatedState>::clone(&self.state), self.parent.state_root);
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

    /// Who is paid for the block. A native chain's header has no seal here that would say it.
    fn author_of(&self, header: &Header, wanted: Option<Address>) -> Address {
        let is_native = self.calls.executor.spec().native.is_some();
        if is_native { wanted.unwrap_or(self.author) } else { header.beneficiary }
    }

    /// What calls are excused from, and what instructions see beside the header.
    fn set_context(&self, block: &mut OpenBlock, overrides: &BlockOverrides) {
        let context = &mut block.execution.evm_mut().ctx;
        context.cfg.disable_nonce_check = !self.rules.validates;
        context.cfg.disable_eip3607 = true;
        context.cfg.tx_gas_limit_cap = Some(u64::MAX);
        context.cfg.max_blobs_per_tx = None;
        if self.calls.executor.spec().native.is_some() {
            if overrides.prev_randao.is_some() {
                context.block.prevrandao = overrides.prev_randao;
            }
            return;
        }
        if let (Some(price), Some(blobs)) = (overrides.blob_base_fee, context.block.blob_excess_gas_and_price.as_mut())
        {
            *blobs = BlobExcessGasAndPrice { blob_gasprice: price.saturating_to(), ..*blobs };
        }
    }

    /// Ends the block with its last steps, computes its roots and makes it the parent of the next one.
    fn close(&mut self, block: OpenBlock, withdrawals: Option<Vec<Withdrawal>>) -> Result<SimulatedBlock, Failure> {
        let OpenBlock { mut header, execution, transactions, senders, calls, blobs: _ } = block;
        header.withdrawals_root = withdrawals.as_deref().map(tenon_chain::withdrawals_root);
        let draft = tenon_chain::assemble_block(tenon_chain::seal(header.clone()), Vec::new(), Vec::new(), withdrawals);
        let rewards = self.rewards(&draft)?;
        let outcome = execution.finish(&draft, &rewards).map_err(|error| self.closing_failure(error))?;
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

    /// What mining the block pays. A native chain pays by its votes and checkpoints, which a simulation has not.
    fn rewards(&self, draft: &Block) -> Result<BlockRewards, Failure> {
        if self.calls.executor.spec().native.is_some() {
            return Ok(BlockRewards::default());
        }
        let rewards = self.calls.engine.rewards(draft, &*self.calls.chain);
        rewards.map_err(|error| Failure::server(error.to_string()))
    }

    fn closing_failure(&self, error: ExecutionError) -> Failure {
        // A system call that was interrupted says only that it failed.
        self.check_time().err().unwrap_or_else(|| error.into())
    }

    /// What the block changed, with the state root after it.
    fn changes(&self, header: &Header, outcome: &BlockOutcome) -> Result<BlockChanges, Failure> {
        let state = &outcome.state;
        let mut accounts = state.changes();
        let codes = state.new_codes(&accounts)?;
        let previous = |address| state.account_before(address);
        let update = tenon_chain::update_state_trie(&*self.state, self.parent.state_root, &mut accounts, &previous)
            .map_err(|source| ExecutionError::Trie { number: header.number.into(), source })?;
        Ok(BlockChanges { accounts, codes, update })
    }

    /// The state, while no block is running on it.
    fn state_mut(&mut self) -> Result<&mut SimulatedState, Failure> {
        let shared = || Failure::server(StoreError::Corrupt { what: "state of a simulation".to_owned() }.to_string());
        Arc::get_mut(&mut self.state).ok_or_else(shared)
    }
}
