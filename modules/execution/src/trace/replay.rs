//! Restores the state before a transaction, and traces from there.

use std::{
    cell::RefCell,
    fmt::{self, Write as _},
    sync::Arc,
    time::Instant,
};

use alloy_primitives::{Address, B256};
use revm::context::{TxEnv, result::EVMError};
use revm_inspectors::tracing::{DebugInspector, TransactionContext};
use tenon_api::{
    BlockId, Failure, RecoveredBlock, SealedHeader, Transaction,
    messages::{Trace, TraceReply, TraceTarget},
};
use tenon_bus::CallContext;
use tenon_javascript::Dialect;

use super::{
    TraceInspector, TraceOptions,
    inspector::{ActiveTracer, TOO_LARGE_MARK, TRACER_FAILED_MARK},
    interruptible_json::write_json,
    recording::{TraceMemory, TraceShare, text_bytes},
    reference::{RunGas, TracerFailure},
    reference_replay::{ReferenceTracing, failure_of_tracer},
    scripts::{ScriptPlace, Scripts},
    struct_log::struct_log_json,
};
use crate::{
    ExecutionLimits, TransactionRejection,
    block::{BlockEvm, BlockExecution, BlockState, Interrupt, MovedPrecompiles, Prepared, StateError, Stopped},
    call::{Calls, Kind, MAX_ATTEMPTED_GAS, RunFailure, invalid_transaction_text, prepare},
    family::{BlockOrigin, Fees, Outcome, TracerDialect, effective_price, inspect},
};

/// A trace request and its caller.
struct Tracing<'a> {
    calls: &'a Calls,
    options: TraceOptions,
    caller: &'a CallContext,
    memory: TraceMemory,
    answer: RefCell<AnswerMemory>,
    scripts: Scripts<'a>,
    /// The end of an attempt, if this is one.
    attempt_ends: Option<Instant>,
}

/// Memory of an answer's texts while they are written.
struct AnswerMemory {
    share: TraceShare,
    /// Length of the answers of earlier transactions, bytes.
    before: u64,
}

/// Stack of a trace, bytes. A tree of calls is as deep as the EVM allows, 1024, and is written and freed
/// recursively, which overflowed the 2 MiB of an ordinary worker.
const TRACE_STACK: usize = 64 << 20;

impl Calls {
    /// `debug_trace*`.
    pub(crate) fn trace(&self, trace: &Trace, caller: &CallContext) -> Result<TraceReply, Failure> {
        let begun = Instant::now();
        let reply = match self.executor.family().tracer_dialect() {
            TracerDialect::Reference => {
                let tracing = ReferenceTracing::new(self, &trace.options, caller)?;
                on_deep_stack(move || tracing.run(&trace.target))
            }
            TracerDialect::Ethereum => {
                let options = TraceOptions::parse(&trace.options, &self.limits)?;
                let tracing = Tracing::new(self, options, caller);
                on_deep_stack(move || tracing.run(&trace.target))
            }
        };
        if let (Ok(_), TraceTarget::Call { request, .. }) = (&reply, &trace.target) {
            self.forget_if_short(Kind::Trace, request, begun);
        }
        reply
    }

    /// A traced call that ends at `end`, and whose tracer records calls only. Its depth is bounded by its time: it needs no
    /// deep stack. Errors are not the caller's.
    pub(crate) fn trace_in_time(
        &self,
        trace: &Trace,
        caller: &CallContext,
        end: Instant,
    ) -> Result<TraceReply, Failure> {
        let json = match self.executor.family().tracer_dialect() {
            TracerDialect::Reference => {
                ReferenceTracing::new(self, &trace.options, caller)?.ending_at(end)?.run(&trace.target)?
            }
            TracerDialect::Ethereum => {
                let options = TraceOptions::parse(&trace.options, &self.limits)?;
                if !options.records_calls_only() {
                    return Err(not_attempted());
                }
                let mut tracing = Tracing::new(self, options, caller);
                tracing.attempt_ends = Some(end);
                tracing.run(&trace.target)?
            }
        };
        Ok(TraceReply { json })
    }
}

/// The error of a trace that is not attempted. It is never shown.
pub(super) fn not_attempted() -> Failure {
    Failure::limit("the trace is not attempted")
}

impl Calls {
    /// The state before a transaction of a block.
    pub(super) fn state_before(
        &self,
        block: &RecoveredBlock,
        index: u64,
        caller: &CallContext,
    ) -> Result<BlockState, Failure> {
        if self.executor.family().tracer_dialect() == TracerDialect::Reference {
            return ReferenceTracing::new(self, "{}", caller)?.state_before(block, index);
        }
        let tracing = Tracing::new(self, TraceOptions::parse("{}", &self.limits)?, caller);
        let index = usize::try_from(index).map_err(|_| transaction_not_found())?;
        Ok(tracing.replay(block, index)?.into_state().map_err(|StateError(error)| error)?)
    }
}

/// Runs a trace on a stack of its own on the same thread: a thread of its own would cost more than a short trace.
fn on_deep_stack(trace: impl FnOnce() -> Result<String, Failure>) -> Result<TraceReply, Failure> {
    Ok(TraceReply { json: stacker::grow(TRACE_STACK, trace)? })
}

impl<'a> Tracing<'a> {
    fn new(calls: &'a Calls, options: TraceOptions, caller: &'a CallContext) -> Self {
        let memory = calls.recording_memory.of(caller.origin());
        let answer = RefCell::new(AnswerMemory { share: TraceShare::new(&memory), before: 0 });
        let scripts = Scripts::new(&calls.scripts, &memory, caller);
        Self { calls, options, caller, memory, answer, scripts, attempt_ends: None }
    }

    fn run(&self, target: &TraceTarget) -> Result<String, Failure> {
        match target {
            TraceTarget::Transaction(hash) => self.transaction(*hash),
            TraceTarget::Block(block) => self.whole_block(&*self.block(*block)?),
            TraceTarget::RawBlock(bytes) => self.whole_block(&self.raw_block(bytes)?),
            TraceTarget::Call { .. } => self.call(target),
        }
    }

    fn transaction(&self, hash: B256) -> Result<String, Failure> {
        let location = self.calls.chain.transaction_location(hash)?;
        let (block_hash, index) = location.ok_or_else(transaction_not_found)?;
        let block = self.block(BlockId::hash(block_hash))?;
        let index = usize::try_from(index).map_err(|_| transaction_not_found())?;
        let mut execution = self.replay(&block, index)?;
        self.trace_transaction(&mut execution, &block, index)
    }

    fn whole_block(&self, block: &RecoveredBlock) -> Result<String, Failure> {
        let mut execution = self.replay(block, 0)?;
        let mut json = String::from("[");
        for (index, transaction) in block.transactions.iter().enumerate() {
            self.ensure_awaited()?;
            let traced = self.trace_transaction(&mut execution, block, index);
            let comma = if index > 0 { "," } else { "" };
            // Writing to a text does not fail.
            let _ = write!(json, "{comma}{{\"txHash\":\"{}\",", transaction.hash);
            match traced {
                Ok(result) => json.extend(["\"result\":", result.as_str(), "}"]),
                // A single failed trace does not fail the others, but they need its state changes.
                Err(failure) => {
                    self.run_untraced(&mut execution, block, index)?;
                    let _ = write!(json, "\"error\":{}}}", serde_json::Value::from(failure.message));
                }
            }
            check_size(json.len(), &self.calls.limits)?;
            self.answer.borrow_mut().before = text_bytes(json.len(), json.capacity());
        }
        json.push(']');
        Ok(json)
    }

    fn call(&self, target: &TraceTarget) -> Result<String, Failure> {
        let TraceTarget::Call { request, block, transaction_index, state_overrides, block_overrides } = target else {
            return Err(Failure::server("not a call"));
        };
        let (header, mut state) = match (transaction_index, self.attempt_ends) {
            (None, None) => self.calls.base(*block, self.caller)?,
            (None, Some(end)) => self.calls.base_in_time(*block, end)?,
            (Some(index), _) => self.state_before(*block, *index)?,
        };
        let environment = prepare(self.calls, &header, &mut state, request, state_overrides, block_overrides)?;
        let message = &environment.transaction;
        if self.attempt_ends.is_some() && message.gas_limit > MAX_ATTEMPTED_GAS {
            return Err(not_attempted());
        }
        let place = ScriptPlace { block: header.number, transaction: None, gas_limit: message.gas_limit };
        let mut inspector = TraceInspector::idle(&self.memory);
        self.begin_trace(&mut inspector, &environment.precompiles, place)?;
        let mut evm = environment.evm(state, self.interrupt(), inspector);
        Ok(self.inspect(&mut evm, environment.transaction.clone(), None, None)?.0)
    }

    fn state_before(&self, block: BlockId, index: u64) -> Result<(Arc<SealedHeader>, BlockState), Failure> {
        let block = self.block(block)?;
        let count = block.transactions.len();
        let index = usize::try_from(index).ok().filter(|index| *index <= count).ok_or_else(|| {
            Failure::server(format!("transaction index {index} out of range for block {}", block.hash()))
        })?;
        let execution = self.replay(&block, index)?;
        let state = execution.into_state().map_err(|StateError(error)| error)?;
        Ok((Arc::new(block.header.clone()), state))
    }

    /// The block, which must have a parent.
    fn block(&self, id: BlockId) -> Result<Arc<RecoveredBlock>, Failure> {
        let not_found = || block_not_found(id);
        let header = tenon_chain::resolve_block(&*self.calls.chain, id)?.ok_or_else(not_found)?;
        if header.number == 0 {
            return Err(genesis_is_not_traceable());
        }
        self.calls.chain.block(header.hash())?.ok_or_else(not_found)
    }

    fn raw_block(&self, bytes: &[u8]) -> Result<RecoveredBlock, Failure> {
        // Trailing bytes are ignored, as in the reference.
        let block = tenon_chain::decode_block(&mut &*bytes)
            .map_err(|error| Failure::server(format!("could not decode block: {error}")))?;
        if block.header.number == 0 {
            return Err(genesis_is_not_traceable());
        }
        let rules = self.calls.executor.spec().signer_rules(block.header.number, block.header.timestamp);
        tenon_chain::recover_senders_under(block, &rules).map_err(|error| Failure::server(error.to_string()))
    }

    /// Executes a block up to, but not including, its transaction `index`.
    fn replay(&self, block: &RecoveredBlock, index: usize) -> Result<BlockExecution<TraceInspector>, Failure> {
        let parent = block.header.parent_hash;
        let idle = || Ok(TraceInspector::idle(&self.memory));
        let mut execution = open_block(self.calls, self.caller, block, format_args!("{parent}"), idle)?;
        execution.run_opening_calls();
        for earlier in 0..index {
            self.run_untraced(&mut execution, block, earlier)?;
        }
        Ok(execution)
    }

    fn run_untraced(
        &self,
        execution: &mut BlockExecution<TraceInspector>,
        block: &RecoveredBlock,
        index: usize,
    ) -> Result<(), Failure> {
        let (transaction, sender) = member(block, index).ok_or_else(transaction_not_found)?;
        let hash = transaction.hash;
        execute_member(execution, transaction, sender, format_args!("transaction {hash}"), self.caller)
    }

    /// Traces the next transaction and applies its state changes.
    fn trace_transaction(
        &self,
        execution: &mut BlockExecution<TraceInspector>,
        block: &RecoveredBlock,
        index: usize,
    ) -> Result<String, Failure> {
        let (transaction, sender) = member(block, index).ok_or_else(transaction_not_found)?;
        let rejected = |reason: TransactionRejection| Failure::server(format!("tracing failed: {reason}"));
        let prepared = execution.prepare(transaction, sender).map_err(rejected)?;
        let Prepared::Executed { env, fees, blob_gas } = prepared else {
            // Only chains of the other dialect have transactions that bypass the EVM.
            return Err(Failure::server("tracing failed: the transaction is not executed"));
        };
        let evm = execution.evm_mut();
        let place = ScriptPlace {
            block: block.header.number,
            transaction: Some((block.hash(), index as u64, transaction.hash)),
            gas_limit: env.gas_limit,
        };
        self.begin_trace(&mut evm.inspector, evm.precompiles.places(), place)?;
        evm.ctx.chain = self.interrupt();
        let place = TransactionContext {
            block_hash: Some(block.hash()),
            tx_index: Some(index),
            tx_hash: Some(transaction.hash),
        };
        let (json, outcome) = self.inspect(evm, env, fees.as_ref(), Some(place))?;
        execution.complete(transaction, sender, fees.as_ref(), blob_gas, outcome).map_err(rejected)?;
        Ok(json)
    }

    /// Runs a transaction under its inspector; returns the JSON text of the result, and the state changes.
    fn inspect(
        &self,
        evm: &mut BlockEvm<TraceInspector>,
        transaction: TxEnv,
        fees: Option<&Fees>,
        place: Option<TransactionContext>,
    ) -> Result<(String, Outcome), Failure> {
        let outcome = match inspect(&**self.calls.executor.family(), evm, transaction.clone(), fees) {
            Ok(outcome) => outcome,
            Err(EVMError::Custom(text)) if text == TRACER_FAILED_MARK => return Err(failure_of_tracer(evm)),
            Err(EVMError::Custom(text)) if text == TOO_LARGE_MARK => {
                return Err(too_large(&self.calls.limits));
            }
            Err(failure) => return Err(self.failure(RunFailure::from_evm(failure, &evm.ctx.chain), evm, &transaction)),
        };
        self.ensure_awaited()?;
        let block = evm.ctx.block.clone();
        let state = &mut evm.ctx.journaled_state.database;
        let recorded = evm.inspector.recorded_bytes();
        if let ActiveTracer::Reference(_) = &evm.inspector.tracer {
            let json = self.script_result(evm, &transaction, fees, &outcome)?;
            return Ok((json, outcome));
        }
        let ActiveTracer::Ethereum(tracer) = &mut evm.inspector.tracer else {
            return Err(Failure::server("tracing failed: no tracer"));
        };
        let json = match &mut tracer.inner {
            DebugInspector::Default(recorded, options) => {
                let nodes = recorded.traces().nodes();
                struct_log_json(nodes, options, &outcome.result, |length, capacity| self.may_go_on(length, capacity))?
            }
            other => {
                // The result contains a copy of the recording.
                self.hold(recorded)?;
                let result = other.get_result(place, &transaction, &block, &outcome, state);
                let mut result = result.map_err(|error| Failure::server(error.to_string()))?;
                tracer.failures.amend(&mut result);
                self.ensure_awaited()?;
                write_json(&result, |length, capacity| {
                    self.hold(recorded.saturating_add(text_bytes(length, capacity)))?;
                    self.may_go_on(length, capacity)
                })?
            }
        };
        evm.inspector.end();
        self.may_go_on(json.len(), json.capacity())?;
        Ok((json, outcome))
    }

    /// Checks that the caller is still waiting, that the answer is not too large, and that there is memory for it.
    fn may_go_on(&self, length: usize, capacity: usize) -> Result<(), Failure> {
        self.ensure_awaited()?;
        check_size(length, &self.calls.limits)?;
        self.hold(text_bytes(length, capacity))
    }

    /// Reserves memory for an answer of this size, beside those of earlier transactions.
    fn hold(&self, bytes: u64) -> Result<(), Failure> {
        let AnswerMemory { share, before } = &mut *self.answer.borrow_mut();
        match share.hold(before.saturating_add(bytes)) {
            true => Ok(()),
            false => Err(too_large(&self.calls.limits)),
        }
    }

    /// Checks that the caller is still waiting.
    fn ensure_awaited(&self) -> Result<(), Failure> {
        if self.caller.should_stop() { Err(request_timed_out()) } else { Ok(()) }
    }

    fn failure(&self, failure: RunFailure, evm: &BlockEvm<TraceInspector>, transaction: &TxEnv) -> Failure {
        match failure {
            RunFailure::Message(invalid) => {
                let text = invalid_transaction_text(&invalid, transaction, &evm.ctx.block);
                Failure::server(format!("tracing failed: {text}"))
            }
            failure => run_failure(failure),
        }
    }

    /// The result of a script, after its run.
    fn script_result(
        &self,
        evm: &mut BlockEvm<TraceInspector>,
        transaction: &TxEnv,
        fees: Option<&Fees>,
        outcome: &Outcome,
    ) -> Result<String, Failure> {
        let intrinsic = evm.ctx.cfg.gas_params.initial_tx_gas_for_tx(transaction, None);
        let gas = RunGas {
            gas_used: outcome.result.tx_gas_used(),
            intrinsic_gas: intrinsic.initial_total_gas(),
            gas_price: effective_price(fees, transaction, evm.ctx.block.basefee),
        };
        // Replacing the inspector releases the script.
        let mut inspector = std::mem::replace(&mut evm.inspector, TraceInspector::idle(&self.memory));
        let ActiveTracer::Reference(watch) = &mut inspector.tracer else {
            return Err(Failure::server("tracing failed: no tracer"));
        };
        let json = watch.result(gas, &outcome.state, &mut evm.ctx.journaled_state.database);
        let json = json.map_err(|failure| match failure {
            TracerFailure::Worded(text) => Failure::server(text),
            TracerFailure::Refused(failure) => failure,
            TracerFailure::State(StateError(error)) => error.into(),
        })?;
        self.may_go_on(json.len(), json.capacity())?;
        Ok(json)
    }

    /// The inspector of a traced transaction.
    fn begin_trace(
        &self,
        inspector: &mut TraceInspector,
        precompiles: &MovedPrecompiles,
        place: ScriptPlace,
    ) -> Result<(), Failure> {
        let Some(source) = self.options.script() else {
            return inspector.begin_ethereum(&self.options, self.calls.limits.trace_steps);
        };
        let timeout = self.options.timeout;
        let watch = self.scripts.watch(source, Dialect::Ethereum, precompiles, place, timeout)?;
        *inspector = TraceInspector::reference(watch, &self.memory);
        Ok(())
    }

    fn interrupt(&self) -> Interrupt {
        if let Some(end) = self.attempt_ends {
            return Interrupt::attempt(self.caller, end);
        }
        Interrupt::when(self.caller, Instant::now().checked_add(self.options.timeout))
    }
}

/// A block before its first transaction. `parent_name` names its parent in errors.
///
/// # Errors
/// The parent, its state or the block's author is unknown, or there is no inspector.
pub(super) fn open_block(
    calls: &Calls,
    caller: &CallContext,
    block: &RecoveredBlock,
    parent_name: fmt::Arguments<'_>,
    inspector: impl FnOnce() -> Result<TraceInspector, Failure>,
) -> Result<BlockExecution<TraceInspector>, Failure> {
    let parent = calls.chain.header(block.header.parent_hash)?;
    let parent = parent.ok_or_else(|| Failure::server(format!("parent {parent_name} not found")))?;
    let state = calls.state_after(&parent, caller)?;
    let author = calls.engine.author(&block.header).map_err(|error| Failure::server(error.to_string()))?;
    let (family, unhurried) = (calls.executor.family(), Interrupt::when(caller, None));
    let origin = BlockOrigin::Replayed { chain: &calls.chain, engine: &calls.engine, parent: &parent };
    Ok(BlockExecution::watched(family, &block.header, author, state, unhurried, inspector()?, origin)?)
}

/// A transaction of a block, and its sender.
pub(super) fn member(block: &RecoveredBlock, index: usize) -> Option<(&Transaction, Address)> {
    let found = block.transactions.get(index).zip(block.senders.get(index));
    found.map(|(transaction, sender)| (&**transaction, *sender))
}

/// Executes a transaction like its block does. `name` names it in errors.
///
/// # Errors
/// The transaction is not valid in the block, the caller has gone, or the database failed.
pub(super) fn execute_member<I>(
    execution: &mut BlockExecution<I>,
    transaction: &Transaction,
    sender: Address,
    name: fmt::Arguments<'_>,
    caller: &CallContext,
) -> Result<(), Failure> {
    execution.evm_mut().ctx.chain = Interrupt::when(caller, None);
    execution.run_transaction(transaction, sender).map_err(|reason| match reason {
        TransactionRejection::Store(error) => error.into(),
        _ if caller.is_cancelled() => request_timed_out(),
        reason => Failure::server(format!("{name} failed: {reason}")),
    })
}

/// Why a traced message has no outcome.
pub(super) fn run_failure(failure: RunFailure) -> Failure {
    match failure {
        RunFailure::Stopped(Stopped::TimedOut) => Failure::server("execution timeout"),
        RunFailure::Stopped(Stopped::CallerGone) => request_timed_out(),
        RunFailure::OutOfMemory(refused) => refused.into(),
        RunFailure::Store(error) => error.into(),
        RunFailure::Refused(text) | RunFailure::Other(text) => Failure::server(format!("tracing failed: {text}")),
        RunFailure::Message(invalid) => Failure::server(format!("tracing failed: {invalid}")),
    }
}

pub(super) fn block_not_found(id: BlockId) -> Failure {
    Failure::server(match id {
        BlockId::Hash { hash, .. } => format!("block {hash} not found"),
        BlockId::Number(number) => format!("block #{number} not found"),
        BlockId::Tag(_) => "block not found".to_owned(),
    })
}

fn transaction_not_found() -> Failure {
    Failure::server("transaction not found")
}

/// Checks the length of an answer.
pub(super) fn check_size(length: usize, limits: &ExecutionLimits) -> Result<(), Failure> {
    let most = limits.trace_answer_bytes;
    if length as u64 > most {
        return Err(Failure::limit(format!("the trace is longer than {most} bytes")));
    }
    Ok(())
}

pub(super) fn too_large(limits: &ExecutionLimits) -> Failure {
    let steps = limits.trace_steps;
    Failure::limit(format!(
        "the trace records more than {steps} steps or more memory than is left for traces; \
         set \"limit\", disable what is not needed, or use callTracer"
    ))
}

pub(super) fn genesis_is_not_traceable() -> Failure {
    Failure::server("genesis is not traceable")
}

pub(super) fn request_timed_out() -> Failure {
    Failure::limit("request timed out")
}
