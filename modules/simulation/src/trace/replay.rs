//! Replays blocks up to a transaction, and traces from there.
//!
//! This file contains what all tracers share: how blocks are found, how their transactions are executed, and when a run
//! ends. A [`TraceDialect`] contains the differences: options, error texts (`replay_texts`), and how a transaction, a
//! block and a call are traced.

use std::{sync::Arc, time::Instant};

use alloy_primitives::{Address, B256};
use revm::context::TxEnv;
use tenon_api::{
    BlockId, RecoveredBlock, Transaction,
    messages::{
        Trace, TraceOptions, TraceReply, TraceResult, TraceResults, TraceTarget, TracerDialect, TransactionTrace,
    },
};
use tenon_bus::CallContext;
use tenon_execution_block::BlockExecution;
use tenon_execution_interface::{
    BlockEvm, BlockOrigin, BlockState, Fees, Interrupt, Outcome, StateError, TransactionRejection, effective_price,
};
use tenon_simulation_interface::CallError;

use super::{
    TraceError, TraceInspector,
    dialects::dialect_of,
    inspector::ActiveTracer,
    recording::TraceMemory,
    reference::{RunGas, TracerFailure},
    replay_texts::ReplayTexts,
    scripts::Scripts,
};

use crate::{
    CallLimits,
    call::{Calls, Kind},
};

/// Stack of a trace, bytes. A tree of calls is as deep as the EVM allows, 1024, and is written and freed
/// recursively, which overflowed the 2 MiB of an ordinary worker.
const TRACE_STACK: usize = 64 << 20;

/// A trace request, its caller, and the blocks that it executes again.
pub(super) struct Replay<'a> {
    pub(super) calls: &'a Calls,
    pub(super) caller: &'a CallContext,
    pub(super) memory: TraceMemory,
    pub(super) scripts: Scripts<'a>,
    /// The end of an attempt, if this is one.
    pub(super) attempt_ends: Option<Instant>,
    /// The dialect's error texts.
    texts: &'static ReplayTexts,
}

/// How the tracers of one dialect trace.
pub(super) trait TraceDialect {
    /// Which dialect it is.
    fn dialect(&self) -> TracerDialect;

    /// The replay of this request.
    fn replay(&self) -> &Replay<'_>;

    /// Returns whether the tracer records calls only. An attempt is made only then: the depth of such a trace is bounded by
    /// its time, so that it needs no deep stack.
    fn records_calls_only(&self) -> bool;

    /// A block that may be traced.
    fn block(&self, id: BlockId) -> Result<Arc<RecoveredBlock>, TraceError> {
        self.replay().block(id)
    }

    /// Checks a block that the caller supplied.
    fn check_raw_block(&self, block: &tenon_api::Block) -> Result<(), TraceError>;

    /// Traces one transaction of a block whose earlier transactions were executed.
    fn trace_transaction(
        &self,
        execution: &mut BlockExecution<TraceInspector>,
        block: &RecoveredBlock,
        index: usize,
    ) -> Result<TraceResult, TraceError>;

    /// Traces a whole block.
    fn trace_block(&self, block: &RecoveredBlock) -> Result<Vec<TransactionTrace>, TraceError>;

    /// Traces a call.
    fn trace_call(&self, target: &TraceTarget) -> Result<TraceResult, TraceError>;
}

impl Calls {
    /// `debug_trace*`.
    pub(crate) fn trace(&self, trace: &Trace, caller: &CallContext) -> Result<TraceReply, TraceError> {
        let begun = Instant::now();
        let dialect = dialect_of(self, &trace.options, caller, None)?;
        // A larger stack on the same thread: a new thread would cost more than a short trace.
        let reply = stacker::grow(TRACE_STACK, move || run(&*dialect, &trace.target));
        if let (Ok(_), TraceTarget::Call { request, .. }) = (&reply, &trace.target) {
            self.forget_if_short(Kind::Trace, request, begun);
        }
        reply
    }

    /// Traces a call with a tracer that records calls only, until `end`. Its errors are not reported to the caller.
    pub(crate) fn trace_in_time(
        &self,
        trace: &Trace,
        caller: &CallContext,
        end: Instant,
    ) -> Result<TraceReply, TraceError> {
        let dialect = dialect_of(self, &trace.options, caller, Some(end))?;
        run(&*dialect, &trace.target)
    }

    /// The state before a transaction of a block.
    pub(super) fn state_before(
        &self,
        block: &RecoveredBlock,
        index: u64,
        caller: &CallContext,
    ) -> Result<BlockState, TraceError> {
        dialect_of(self, &TraceOptions::default(), caller, None)?.replay().state_before(block, index)
    }
}

/// Executes the trace request.
fn run(dialect: &dyn TraceDialect, target: &TraceTarget) -> Result<TraceReply, TraceError> {
    let results = match target {
        TraceTarget::Transaction(hash) => {
            let (block, index) = transaction(dialect, *hash)?;
            let mut execution = dialect.replay().before(&block, index)?;
            TraceResults::Single(dialect.trace_transaction(&mut execution, &block, index)?)
        }
        TraceTarget::Block(block) => TraceResults::Block(dialect.trace_block(&*dialect.block(*block)?)?),
        TraceTarget::RawBlock(bytes) => TraceResults::Block(dialect.trace_block(&raw_block(dialect, bytes)?)?),
        TraceTarget::Call { .. } => TraceResults::Single(dialect.trace_call(target)?),
    };
    Ok(TraceReply { dialect: dialect.dialect(), results })
}

/// A transaction's block, and its index there.
fn transaction(dialect: &dyn TraceDialect, hash: B256) -> Result<(Arc<RecoveredBlock>, usize), TraceError> {
    let Replay { calls, texts, .. } = dialect.replay();
    let unknown = || TraceError::NotFound((texts.unknown_transaction)(hash));
    let unknown_block = |block| TraceError::NotFound((texts.unknown_block_of_transaction)(block));
    let (block_hash, index) = calls.chain.transaction_location(hash)?.ok_or_else(unknown)?;
    let block = calls.chain.block(block_hash)?.ok_or_else(|| unknown_block(block_hash))?;
    Ok((block, usize::try_from(index).map_err(|_| unknown())?))
}

/// A block that the caller supplied. Trailing bytes are ignored, as in the reference.
fn raw_block(dialect: &dyn TraceDialect, bytes: &[u8]) -> Result<RecoveredBlock, TraceError> {
    let Replay { calls, texts, .. } = dialect.replay();
    let block = tenon_chain::decode_block(&mut &*bytes)
        .map_err(|error| TraceError::UndecodableBlock((texts.undecodable)(bytes, &error)))?;
    dialect.check_raw_block(&block)?;
    let rules = calls.executor.spec().signer_rules(block.header.number, block.header.timestamp);
    Ok(tenon_chain::recover_senders_under(block, &rules)?)
}

impl<'a> Replay<'a> {
    pub(super) fn new(
        calls: &'a Calls,
        caller: &'a CallContext,
        attempt_ends: Option<Instant>,
        texts: &'static ReplayTexts,
    ) -> Self {
        let memory = calls.recording_memory.of(caller.origin());
        let scripts = Scripts::new(&calls.scripts, &memory, caller);
        Self { calls, caller, memory, scripts, attempt_ends, texts }
    }

    pub(super) fn block(&self, id: BlockId) -> Result<Arc<RecoveredBlock>, TraceError> {
        let not_found = || TraceError::NotFound((self.texts.unknown_block)(id));
        let header = tenon_chain::resolve_block(&*self.calls.chain, id)?.ok_or_else(not_found)?;
        self.calls.chain.block(header.hash())?.ok_or_else(not_found)
    }

    /// A block before its first transaction.
    ///
    /// # Errors
    /// The parent, its state or the block's author is unknown.
    pub(super) fn open(&self, block: &RecoveredBlock) -> Result<BlockExecution<TraceInspector>, TraceError> {
        let Self { calls, caller, .. } = self;
        let parent = block.header.parent_hash;
        let unknown = || TraceError::NotFound((self.texts.unknown_parent)(parent));
        let parent = calls.chain.header(parent)?.ok_or_else(unknown)?;
        let state = calls.state_after(&parent, caller)?;
        let author = calls.engine.author(&block.header)?;
        let (family, no_deadline) = (calls.executor.family(), Interrupt::for_caller(caller, None));
        let origin = BlockOrigin::Replayed { chain: &calls.chain, engine: &calls.engine, parent: &parent };
        let idle = TraceInspector::idle(&self.memory);
        let mut execution = BlockExecution::watched(family, &block.header, author, state, no_deadline, idle, origin)?;
        execution.run_opening_calls()?;
        Ok(execution)
    }

    /// A block before its transaction `index`, all earlier ones executed.
    pub(super) fn before(
        &self,
        block: &RecoveredBlock,
        index: usize,
    ) -> Result<BlockExecution<TraceInspector>, TraceError> {
        let mut execution = self.open(block)?;
        for earlier in 0..index {
            self.execute(&mut execution, block, earlier)?;
        }
        Ok(execution)
    }

    /// The state before a transaction of a block; at its number of transactions, the state after the last one.
    pub(super) fn state_before(&self, block: &RecoveredBlock, index: u64) -> Result<BlockState, TraceError> {
        let position = usize::try_from(index).ok().filter(|index| *index <= block.transactions.len());
        let position = position.ok_or_else(|| self.index_out_of_range(index, block))?;
        Ok(self.before(block, position)?.into_state().map_err(|StateError(error)| error)?)
    }

    /// A transaction of a block, and its sender.
    pub(super) fn member<'b>(
        &self,
        block: &'b RecoveredBlock,
        index: usize,
    ) -> Result<(&'b Transaction, Address), TraceError> {
        member(block, index).ok_or_else(|| self.index_out_of_range(index as u64, block))
    }

    fn index_out_of_range(&self, index: u64, block: &RecoveredBlock) -> TraceError {
        TraceError::NotFound((self.texts.index_out_of_range)(index, block.hash()))
    }

    /// Executes a transaction as its block does.
    pub(super) fn execute(
        &self,
        execution: &mut BlockExecution<TraceInspector>,
        block: &RecoveredBlock,
        index: usize,
    ) -> Result<(), TraceError> {
        let (transaction, sender) = self.member(block, index)?;
        let name = || (self.texts.transaction_name)(transaction.hash);
        execute_transaction_of_block(execution, transaction, sender, name, self.caller)
    }

    /// Ends a run at `deadline`, or with the attempt.
    pub(super) fn interrupt(&self, deadline: Option<Instant>) -> Interrupt {
        match self.attempt_ends {
            Some(end) => Interrupt::for_attempt(self.caller, end),
            None => Interrupt::for_caller(self.caller, deadline),
        }
    }

    /// Checks that the caller is still waiting.
    pub(super) fn ensure_awaited(&self) -> Result<(), TraceError> {
        if self.caller.should_stop() { Err(CallError::CallerGone.into()) } else { Ok(()) }
    }

    /// The answer of a tracer of the reference, or of a script, after its run. Releases the recording's memory.
    pub(super) fn take_answer(
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
        let ActiveTracer::Reference(watch) = &mut inspector.tracer else {
            return Err(TraceError::tracing_failed("no tracer"));
        };
        let answer = watch.result(gas, &outcome.state, &mut evm.ctx.journaled_state.database);
        answer.map_err(|failure| match failure {
            TracerFailure::ReferenceText(text) => TraceError::NoResult(text),
            TracerFailure::Script(error) => error.into(),
            TracerFailure::State(StateError(error)) => error.into(),
        })
    }
}

/// A transaction of a block, and its sender.
pub(super) fn member(block: &RecoveredBlock, index: usize) -> Option<(&Transaction, Address)> {
    let found = block.transactions.get(index).zip(block.senders.get(index));
    found.map(|(transaction, sender)| (&**transaction, *sender))
}

/// Why the tracer ended its run.
pub(super) fn error_of_tracer(evm: &mut BlockEvm<TraceInspector>) -> TraceError {
    let error = match &mut evm.inspector.tracer {
        ActiveTracer::Reference(watch) => watch.take_error(),
        _ => None,
    };
    error.map_or_else(|| TraceError::tracing_failed("the tracer failed"), TraceError::from)
}

/// Executes a transaction like its block does. `name` names it in errors.
///
/// # Errors
/// The transaction is not valid in the block, the caller has gone, or the database failed.
pub(super) fn execute_transaction_of_block<I>(
    execution: &mut BlockExecution<I>,
    transaction: &Transaction,
    sender: Address,
    name: impl FnOnce() -> String,
    caller: &CallContext,
) -> Result<(), TraceError> {
    execution.evm_mut().ctx.chain = Interrupt::for_caller(caller, None);
    execution.run_transaction(transaction, sender).map_err(|reason| match reason {
        TransactionRejection::Store(_) | TransactionRejection::Trie(_) => reason.into(),
        reason => TraceError::Transaction { name: name(), reason },
    })
}

/// Checks the size of the results of a request.
pub(super) fn check_size(length: usize, limits: &CallLimits) -> Result<(), TraceError> {
    let max = limits.trace_answer_bytes;
    if length as u64 > max { Err(TraceError::TooLong { max }) } else { Ok(()) }
}
