//! Runs the EVM for queries.

mod access_list;
mod answer_memory;
mod attempt;
mod environment;
mod estimate;
mod failing_step;
mod overrides;
mod pausing_state;
mod replay_source;
mod run;

use std::sync::Arc;

use tenon_api::{
    BlockId, Bytes, ChainReader, ConsensusEngine, SealedHeader, StateReader, StoreError, TrieReader, messages::Call,
};

use pausing_state::PausingState;
use run::output_of;
use tenon_bus::{CallContext, CallerAllowance, MemoryBudget, Origin};
use tenon_chain::StateUnavailable;
use tenon_execution_block::Executor;
use tenon_execution_interface::{BlockState, Interrupt, RunMemory};
use tenon_javascript::ScriptHost;
use tenon_simulation_interface::{CallEnd, CallError, CallLimits, MAX_ATTEMPTED_GAS, RunFailure, SimulationFamily};
use tenon_traces::{RecordingMemory, TraceFamily};

pub(crate) use answer_memory::reason_length;
pub(crate) use attempt::{Kind, LongCalls};
pub(crate) use environment::{check_consistency, message_env, prepare};
pub(crate) use estimate::search_gas;
pub(crate) use overrides::{apply_account_overrides, apply_block_overrides};
pub(crate) use run::needs_second_run;

/// Answers calls, estimates, access lists and traces over the states of one chain. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Calls {
    pub(crate) executor: Executor,
    pub(crate) family: Arc<dyn SimulationFamily>,
    pub(crate) tracers: Arc<dyn TraceFamily>,
    pub(crate) chain: Arc<dyn ChainReader>,
    pub(crate) engine: Arc<dyn ConsensusEngine>,
    pub(crate) limits: CallLimits,
    pub(crate) recording_memory: RecordingMemory,
    pub(crate) long_calls: LongCalls,
    /// Memory budget of the runs.
    pub(crate) memory: MemoryBudget,
    /// Runs tracers written in JavaScript.
    pub(crate) scripts: ScriptHost,
}

impl Calls {
    /// A block, and the state after it.
    pub(crate) fn base(
        &self,
        block: BlockId,
        caller: &CallContext,
    ) -> Result<(Arc<SealedHeader>, BlockState), CallError> {
        let (header, mut state) =
            self.base_through(block, |state| Arc::new(PausingState { state, caller: caller.clone() }))?;
        state.count_in(self.run_memory(caller.origin()));
        Ok((header, state))
    }

    /// Like [`Calls::base`], with a wrapper around the state's reader.
    fn base_through(
        &self,
        block: BlockId,
        through: impl FnOnce(Arc<dyn StateReader>) -> Arc<dyn StateReader>,
    ) -> Result<(Arc<SealedHeader>, BlockState), CallError> {
        let header = tenon_chain::require_block(&*self.chain, block)?;
        let state = self.reader_after(&header)?;
        Ok((header, self.executor.state_over(through(state))))
    }

    /// The memory of a run for this caller, reserved from its client's share.
    pub(crate) fn run_memory(&self, origin: Origin) -> RunMemory {
        RunMemory::new(self.memory.clone(), origin, self.limits.call_gas_cap)
    }

    /// The state after a block. Memory of a run over it is reserved from the client's share.
    pub(crate) fn state_after(&self, header: &SealedHeader, caller: &CallContext) -> Result<BlockState, CallError> {
        let mut state = self.executor.state_over(self.reader_for(header, caller)?);
        state.count_in(self.run_memory(caller.origin()));
        Ok(state)
    }

    /// The state after a block, read for a caller.
    pub(crate) fn reader_for(
        &self,
        header: &SealedHeader,
        caller: &CallContext,
    ) -> Result<Arc<dyn StateReader>, CallError> {
        Ok(Arc::new(PausingState { state: self.reader_after(header)?, caller: caller.clone() }))
    }

    /// The trie nodes of the state after a block. If they must be computed, the caller's client is charged.
    pub(crate) fn trie_of(
        &self,
        header: &SealedHeader,
        caller: &CallContext,
    ) -> Result<Arc<dyn TrieReader>, StoreError> {
        self.chain.trie_of(header, Arc::new(CallerAllowance::new(&self.memory, caller)))
    }

    fn reader_after(&self, header: &SealedHeader) -> Result<Arc<dyn StateReader>, CallError> {
        let state = self.chain.state_at(header.number.into());
        // Checked after the state is opened, because an open state detects an unwind of the chain.
        if self.is_canonical(header)? {
            return Ok(state?);
        }
        self.chain.state_of_branch(header)?.ok_or_else(|| StateUnavailable { state_root: header.state_root }.into())
    }

    fn is_canonical(&self, header: &SealedHeader) -> Result<bool, StoreError> {
        // Most queries are about the head, which is in memory.
        Ok(self.chain.head().header.hash() == header.hash()
            || self.chain.canonical_hash(header.number.into())? == Some(header.hash()))
    }

    /// Runs a call in a block's context.
    fn run(
        &self,
        call: &Call,
        header: &SealedHeader,
        mut state: BlockState,
        interrupt: Interrupt,
    ) -> Result<Bytes, CallEnd> {
        let is_attempt = interrupt.is_attempt();
        let environment =
            prepare(self, header, &mut state, &call.request, &call.state_overrides, &call.block_overrides)?;
        let gas_limit = environment.transaction.gas_limit;
        if is_attempt && gas_limit > MAX_ATTEMPTED_GAS {
            return Err(CallEnd::GaveUp);
        }
        let mut evm = environment.evm(state, interrupt, ());
        match environment.run(&mut evm, environment.transaction.clone()) {
            // The failure's text needs a second run, for which an attempt may not have enough time.
            Ok(result) if is_attempt && needs_second_run(&result, &environment.transaction) => Err(CallEnd::GaveUp),
            Ok(result) => Ok(output_of(&environment, result, &environment.transaction, evm)?),
            Err(RunFailure::Stopped(_) | RunFailure::Store(_)) if is_attempt => Err(CallEnd::GaveUp),
            Err(failure) => Err(environment.error_of(failure, gas_limit, self.limits.call_timeout).into()),
        }
    }
}
