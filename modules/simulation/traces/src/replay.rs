//! Replays blocks up to a transaction, and runs messages under a tracer.
//!
//! This file contains what all tracers share: how blocks are found, how their transactions are executed, and when a run
//! ends. A [`Tracing`](crate::Tracing) contains the differences: options, and how a transaction, a block and a call are
//! traced.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use alloy_primitives::Address;
use revm::context::{TxEnv, result::EVMError};
use tenon_api::{
    BlockId, ChainReader, ConsensusEngine, RecoveredBlock, SealedHeader, Transaction,
    messages::{
        AccountOverride, BlockOverrides, CallRequest, MissingItem, TraceFailure, TraceOptions, TraceResult,
        TracerDialect,
    },
};
use tenon_bus::CallContext;
use tenon_execution_block::BlockExecution;
use tenon_execution_interface::{
    BlockEvm, BlockOrigin, BlockState, ChainFamily, EvmFailure, Fees, Interrupt, Outcome, StateError,
    TransactionRejection, effective_price, inspect, transact,
};
use tenon_javascript::ScriptHost;
use tenon_simulation_interface::{CallEnvironment, CallError, CallLimits};

use crate::{
    ActiveTracer, RecordingMemory, Scripts, TraceError, TraceInspector, TraceMemory, TracerFailure,
    events::RunGas,
    inspector::{TOO_LARGE_MARK, TRACER_FAILED_MARK},
};

/// A block that is executed again, before one of its transactions.
pub type ReplayedBlock = BlockExecution<TraceInspector>;

/// What a replay reads: the chain, its states, and the calls prepared on them.
pub trait ReplaySource {
    /// The chain.
    fn chain(&self) -> &Arc<dyn ChainReader>;

    /// The engine of the chain.
    fn engine(&self) -> &Arc<dyn ConsensusEngine>;

    /// The rules of the chain's blocks.
    fn family(&self) -> &Arc<dyn ChainFamily>;

    /// The limits of requests.
    fn limits(&self) -> &CallLimits;

    /// Memory of all recordings.
    fn recording_memory(&self) -> &RecordingMemory;

    /// Runs tracers written in JavaScript.
    fn scripts(&self) -> &ScriptHost;

    /// The state after a block. Memory of a run over it is reserved from the caller's share.
    ///
    /// # Errors
    /// The state is gone, or the database failed.
    fn state_after(&self, header: &SealedHeader, caller: &CallContext) -> Result<BlockState, CallError>;

    /// A block, and the state after it. For an attempt, the state is readable until `attempt_ends`.
    ///
    /// # Errors
    /// The block is unknown, its state is gone, or the database failed.
    fn base(
        &self,
        block: BlockId,
        caller: &CallContext,
        attempt_ends: Option<Instant>,
    ) -> Result<(Arc<SealedHeader>, BlockState), CallError>;

    /// Prepares a call on a state, in the context of a block.
    ///
    /// # Errors
    /// The call or its overrides are not valid, or the database failed.
    fn prepare(
        &self,
        header: &SealedHeader,
        state: &mut BlockState,
        request: &CallRequest,
        account_overrides: &[(Address, AccountOverride)],
        block_overrides: &BlockOverrides,
    ) -> Result<CallEnvironment, CallError>;
}

/// A trace request, its caller, and the blocks that it executes again.
pub struct Replay<'a> {
    /// Source of blocks and states.
    pub source: &'a dyn ReplaySource,
    /// The caller: its deadline, cancellation and memory.
    pub caller: &'a CallContext,
    /// Memory of what it records.
    pub memory: TraceMemory,
    /// Its scripts.
    pub scripts: Scripts<'a>,
    /// The end of an attempt, if this is one.
    pub attempt_ends: Option<Instant>,
    /// Client whose tracers the family has.
    pub dialect: TracerDialect,
}

/// Why a message has no outcome.
#[derive(Debug, derive_more::From)]
pub enum RunError {
    /// It recorded too much, or its tracer failed.
    Trace(TraceError),
    /// The EVM refused it, or did not finish it.
    Evm(EvmFailure),
}

impl<'a> Replay<'a> {
    /// The replay of a request by `caller`.
    pub fn new(
        source: &'a dyn ReplaySource,
        caller: &'a CallContext,
        attempt_ends: Option<Instant>,
        dialect: TracerDialect,
    ) -> Self {
        let memory = source.recording_memory().of(caller.origin());
        let scripts = Scripts::new(source.scripts(), &memory, caller);
        Self { source, caller, memory, scripts, attempt_ends, dialect }
    }

    /// A block of the chain, with its transactions.
    ///
    /// # Errors
    /// It is unknown, or the database failed.
    pub fn block(&self, id: BlockId) -> Result<Arc<RecoveredBlock>, TraceError> {
        let not_found = || self.missing(MissingItem::Block(id));
        let header = tenon_chain::resolve_block(&**self.source.chain(), id)?.ok_or_else(not_found)?;
        self.source.chain().block(header.hash())?.ok_or_else(not_found)
    }

    /// A block before its first transaction.
    ///
    /// # Errors
    /// The parent, its state or the block's author is unknown.
    pub fn open(&self, block: &RecoveredBlock) -> Result<ReplayedBlock, TraceError> {
        let Self { source, caller, .. } = self;
        let parent = block.header.parent_hash;
        let unknown = || self.missing(MissingItem::Parent(parent));
        let parent = source.chain().header(parent)?.ok_or_else(unknown)?;
        let state = source.state_after(&parent, caller)?;
        let author = source.engine().author(&block.header)?;
        let (family, no_deadline) = (source.family(), Interrupt::for_caller(caller, None));
        let origin = BlockOrigin::Replayed { chain: source.chain(), engine: source.engine(), parent: &parent };
        let idle = TraceInspector::idle(&self.memory);
        let mut execution = BlockExecution::watched(family, &block.header, author, state, no_deadline, idle, origin)?;
        execution.run_opening_calls()?;
        Ok(execution)
    }

    /// A block before its transaction `index`, all earlier ones executed.
    ///
    /// # Errors
    /// The block cannot be opened, or an earlier transaction failed.
    pub fn before(&self, block: &RecoveredBlock, index: usize) -> Result<ReplayedBlock, TraceError> {
        let mut execution = self.open(block)?;
        for earlier in 0..index {
            self.execute(&mut execution, block, earlier)?;
        }
        Ok(execution)
    }

    /// The state before a transaction of a block; at its number of transactions, the state after the last one.
    ///
    /// # Errors
    /// Like [`Replay::before`]; the block has fewer transactions.
    pub fn state_before(&self, block: &RecoveredBlock, index: u64) -> Result<BlockState, TraceError> {
        let position = usize::try_from(index).ok().filter(|index| *index <= block.transactions.len());
        let position = position.ok_or_else(|| self.index_out_of_range(index, block))?;
        Ok(self.before(block, position)?.into_state().map_err(|StateError(error)| error)?)
    }

    /// A transaction of a block, and its sender.
    ///
    /// # Errors
    /// The block has fewer transactions.
    pub fn transaction_and_sender<'b>(
        &self,
        block: &'b RecoveredBlock,
        index: usize,
    ) -> Result<(&'b Transaction, Address), TraceError> {
        transaction_and_sender(block, index).ok_or_else(|| self.index_out_of_range(index as u64, block))
    }

    fn index_out_of_range(&self, index: u64, block: &RecoveredBlock) -> TraceError {
        self.missing(MissingItem::Index { index: index.into(), block: block.hash() })
    }

    /// The error of something that is unknown, in the words of the family.
    pub const fn missing(&self, item: MissingItem) -> TraceError {
        TraceError::missing(item, self.dialect)
    }

    /// Executes a transaction as its block does.
    ///
    /// # Errors
    /// Those of [`execute_transaction_of_block`].
    pub fn execute(
        &self,
        execution: &mut ReplayedBlock,
        block: &RecoveredBlock,
        index: usize,
    ) -> Result<(), TraceError> {
        let (transaction, sender) = self.transaction_and_sender(block, index)?;
        execute_transaction_of_block(execution, transaction, sender, self.dialect, self.caller)
    }

    /// Ends a run at `deadline`, or with the attempt.
    pub fn interrupt(&self, deadline: Option<Instant>) -> Interrupt {
        match self.attempt_ends {
            Some(end) => Interrupt::for_attempt(self.caller, end),
            None => Interrupt::for_caller(self.caller, deadline),
        }
    }

    /// Checks that the caller is still waiting.
    ///
    /// # Errors
    /// [`CallError::CallerGone`].
    pub fn ensure_awaited(&self) -> Result<(), TraceError> {
        if self.caller.should_stop() { Err(CallError::CallerGone.into()) } else { Ok(()) }
    }

    /// Runs a message under the inspector of `evm`, with its effects in the outcome only.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn inspect(
        &self,
        evm: &mut BlockEvm<TraceInspector>,
        message: TxEnv,
        fees: Option<&Fees>,
    ) -> Result<Outcome, RunError> {
        inspect(&**self.source.family(), evm, message, fees).map_err(|failure| self.run_error(failure, evm))
    }

    /// Runs a message without a tracer.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn transact(
        &self,
        evm: &mut BlockEvm<TraceInspector>,
        message: TxEnv,
        fees: Option<&Fees>,
    ) -> Result<Outcome, RunError> {
        evm.inspector = TraceInspector::idle(&self.memory);
        evm.ctx.chain = Interrupt::for_caller(self.caller, None);
        transact(&**self.source.family(), evm, message, fees).map_err(|failure| self.run_error(failure, evm))
    }

    /// Recognises the marks of the inspector.
    fn run_error(&self, failure: EvmFailure, evm: &mut BlockEvm<TraceInspector>) -> RunError {
        match failure {
            EVMError::Custom(text) if text == TRACER_FAILED_MARK => error_of_tracer(evm).into(),
            EVMError::Custom(text) if text == TOO_LARGE_MARK => {
                TraceError::TooLarge { max_steps: self.source.limits().trace_steps }.into()
            }
            failure => failure.into(),
        }
    }

    /// The answer of a tracer that received events, after its run. Releases the recording's memory.
    ///
    /// # Errors
    /// Why there is none.
    pub fn take_answer(
        &self,
        evm: &mut BlockEvm<TraceInspector>,
        (message, fees): (&TxEnv, Option<&Fees>),
        outcome: &Outcome,
        intrinsic_gas: u64,
    ) -> Result<TraceResult, TraceError> {
        let gas = RunGas {
            gas_used: outcome.result.tx_gas_used(),
            intrinsic_gas,
            gas_price: effective_price(fees, message, evm.ctx.block.basefee),
        };
        let mut inspector = std::mem::replace(&mut evm.inspector, TraceInspector::idle(&self.memory));
        let ActiveTracer::Events(watch) = &mut inspector.tracer else {
            return Err(TraceError::not_traced("no tracer"));
        };
        let answer = watch.result(gas, &outcome.state, &mut evm.ctx.journaled_state.database);
        answer.map_err(|failure| match failure {
            TracerFailure::NoResult(cause) => TraceFailure::NoResult(cause).into(),
            TracerFailure::Script(error) => error.into(),
            TracerFailure::State(StateError(error)) => error.into(),
        })
    }
}

/// A transaction of a block, and its sender.
pub fn transaction_and_sender(block: &RecoveredBlock, index: usize) -> Option<(&Transaction, Address)> {
    let found = block.transactions.get(index).zip(block.senders.get(index));
    found.map(|(transaction, sender)| (&**transaction, *sender))
}

/// Why the tracer ended its run.
fn error_of_tracer(evm: &mut BlockEvm<TraceInspector>) -> TraceError {
    let error = match &mut evm.inspector.tracer {
        ActiveTracer::Events(watch) => watch.take_error(),
        _ => None,
    };
    error.map_or_else(|| TraceError::not_traced("the tracer failed"), TraceError::from)
}

/// Executes a transaction like its block does. `dialect` chooses the words of its errors.
///
/// # Errors
/// The transaction is not valid in the block, the caller has gone, or the database failed.
pub fn execute_transaction_of_block<I>(
    execution: &mut BlockExecution<I>,
    transaction: &Transaction,
    sender: Address,
    dialect: TracerDialect,
    caller: &CallContext,
) -> Result<(), TraceError> {
    execution.evm_mut().ctx.chain = Interrupt::for_caller(caller, None);
    execution.run_transaction(transaction, sender).map_err(|reason| match reason {
        TransactionRejection::Store(_) | TransactionRejection::Trie(_) => reason.into(),
        reason => {
            let (hash, reason) = (transaction.hash, reason.to_string());
            TraceFailure::EarlierTransaction { hash, reason, dialect }.into()
        }
    })
}

/// Checks the size of the results of a request.
///
/// # Errors
/// [`TraceError::TooLong`].
pub fn check_size(length: usize, limits: &CallLimits) -> Result<(), TraceError> {
    let max = limits.trace_answer_bytes;
    if length as u64 > max { Err(TraceError::TooLong { max }) } else { Ok(()) }
}

/// Time limit of a traced transaction: the caller's, or else `trace_timeout`.
pub fn timeout_of(options: &TraceOptions, trace_timeout: Duration) -> Duration {
    options.timeout.map_or(trace_timeout, |timeout| timeout.min(CallLimits::MAX_TRACE_TIMEOUT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_reduced_to_the_maximum() {
        let own = Duration::from_secs(7);
        let timeout = |timeout| timeout_of(&TraceOptions { timeout, ..TraceOptions::default() }, own);

        assert_eq!(timeout(None), own);
        assert_eq!(timeout(Some(Duration::from_millis(1))), Duration::from_millis(1));
        assert_eq!(timeout(Some(Duration::MAX)), CallLimits::MAX_TRACE_TIMEOUT);
    }
}
