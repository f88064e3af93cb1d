//! Traces like go-ethereum's.

use std::{cell::RefCell, sync::Arc, time::Instant};

use revm::{bytecode::opcode::OpCode, context::TxEnv};
use revm_inspectors::tracing::{DebugInspector, TransactionContext};
use tenon_api::{
    Block, BlockId, RecoveredBlock,
    messages::{NoTraceResult, TraceFailure, TraceOptions, TraceResult, TraceTarget, TracerDialect, TransactionTrace},
};
use tenon_execution_block::Prepared;
use tenon_execution_interface::{BlockEvm, Fees, MovedPrecompiles, Outcome, TransactionRejection};
use tenon_simulation_interface::{MAX_ATTEMPTED_GAS, RunFailure, instruction_name, invalid_transaction_text};
use tenon_traces::{
    ActiveTracer, Replay, ReplayedBlock, RunError, ScriptConventions, ScriptInterface, ScriptPlace, TraceError,
    TraceFamily, TraceInspector, TraceShare, Tracing, check_size, growing_bytes,
};

use super::{ethereum_results::trace_result, options::EthereumOptions, struct_log::struct_log};

/// The tracers of Ethereum's chains: those of go-ethereum.
pub struct EthereumTracers;

impl TraceFamily for EthereumTracers {
    fn dialect(&self) -> TracerDialect {
        TracerDialect::Ethereum
    }

    fn tracing<'a>(&self, replay: Replay<'a>, options: &'a TraceOptions) -> Result<Box<dyn Tracing + 'a>, TraceError> {
        let options = EthereumOptions::new(options, replay.source.limits().trace_timeout)?;
        Ok(Box::new(EthereumTracing::new(replay, options)))
    }
}

/// How the scripts of go-ethereum run.
const SCRIPT_CONVENTIONS: ScriptConventions = ScriptConventions {
    interface: ScriptInterface::ETHEREUM,
    instruction_name: |opcode| {
        OpCode::new(opcode).map_or_else(|| instruction_name(opcode).into_owned(), |known| known.as_str().to_owned())
    },
    counts_whole_transaction: true,
};

/// A trace request for go-ethereum's tracers.
struct EthereumTracing<'a> {
    replay: Replay<'a>,
    options: EthereumOptions,
    answer: RefCell<AnswerMemory>,
}

/// Memory of the results.
struct AnswerMemory {
    share: TraceShare,
    /// Size of the results of earlier transactions, bytes.
    before: u64,
}

impl Tracing for EthereumTracing<'_> {
    fn replay(&self) -> &Replay<'_> {
        &self.replay
    }

    fn records_calls_only(&self) -> bool {
        self.options.records_calls_only()
    }

    /// Fails for block 0, which has no parent.
    fn block(&self, id: BlockId) -> Result<Arc<RecoveredBlock>, TraceError> {
        let block = self.replay.block(id)?;
        if block.header.number == 0 { Err(TraceFailure::Genesis.into()) } else { Ok(block) }
    }

    fn check_raw_block(&self, block: &Block) -> Result<(), TraceError> {
        if block.header.number == 0 { Err(TraceFailure::Genesis.into()) } else { Ok(()) }
    }

    /// Also applies the state changes of the transaction.
    fn trace_transaction(
        &self,
        execution: &mut ReplayedBlock,
        block: &RecoveredBlock,
        index: usize,
    ) -> Result<TraceResult, TraceError> {
        let (transaction, sender) = self.replay.transaction_and_sender(block, index)?;
        let rejected = |reason: TransactionRejection| TraceError::not_traced(reason);
        let prepared = execution.prepare(transaction, sender).map_err(rejected)?;
        let Prepared::Executed { env, fees, blob_gas } = prepared else {
            // Only chains of other families have transactions that bypass the EVM.
            return Err(TraceError::not_traced("the transaction is not executed"));
        };
        let evm = execution.evm_mut();
        let place = ScriptPlace {
            block: block.header.number,
            transaction: Some((block.hash(), index as u64, transaction.hash)),
            gas_limit: env.gas_limit,
        };
        self.begin_trace(&mut evm.inspector, evm.precompiles.places(), place)?;
        evm.ctx.chain = self.replay.interrupt(self.deadline());
        let place = TransactionContext {
            block_hash: Some(block.hash()),
            tx_index: Some(index),
            tx_hash: Some(transaction.hash),
        };
        let (result, outcome) = self.inspect(evm, env, fees.as_ref(), Some(place))?;
        execution.complete(transaction, sender, fees.as_ref(), blob_gas, outcome).map_err(rejected)?;
        Ok(result)
    }

    fn trace_block(&self, block: &RecoveredBlock) -> Result<Vec<TransactionTrace>, TraceError> {
        let mut execution = self.replay.open(block)?;
        let mut traces = Vec::with_capacity(block.transactions.len());
        let mut size = 0;
        for (index, transaction) in block.transactions.iter().enumerate() {
            self.replay.ensure_awaited()?;
            let result = self.trace_transaction(&mut execution, block, index);
            // A single failed trace does not fail the others, but they need its state changes.
            if result.is_err() {
                self.replay.execute(&mut execution, block, index)?;
            }
            let trace = TransactionTrace { hash: transaction.hash, result: result.map_err(TraceError::into_failure) };
            size += trace.size();
            traces.push(trace);
            check_size(size, self.replay.source.limits())?;
            self.answer.borrow_mut().before = size as u64;
        }
        Ok(traces)
    }

    fn trace_call(&self, target: &TraceTarget) -> Result<TraceResult, TraceError> {
        let TraceTarget::Call { request, block, transaction_index, state_overrides, block_overrides } = target else {
            return Err(TraceError::NotCall);
        };
        let Replay { source, caller, attempt_ends, .. } = &self.replay;
        let (header, mut state) = match transaction_index {
            None => source.base(*block, caller, *attempt_ends)?,
            Some(index) => {
                let block = self.block(*block)?;
                (Arc::new(block.header.clone()), self.replay.state_before(&block, *index)?)
            }
        };
        let environment = source.prepare(&header, &mut state, request, state_overrides, block_overrides)?;
        let message = &environment.transaction;
        if attempt_ends.is_some() && message.gas_limit > MAX_ATTEMPTED_GAS {
            return Err(TraceError::NotAttempted);
        }
        let place = ScriptPlace { block: header.number, transaction: None, gas_limit: message.gas_limit };
        let mut inspector = TraceInspector::idle(&self.replay.memory);
        self.begin_trace(&mut inspector, &environment.precompiles, place)?;
        let mut evm = environment.evm(state, self.replay.interrupt(self.deadline()), inspector);
        Ok(self.inspect(&mut evm, environment.transaction.clone(), None, None)?.0)
    }
}

impl<'a> EthereumTracing<'a> {
    fn new(replay: Replay<'a>, options: EthereumOptions) -> Self {
        let answer = RefCell::new(AnswerMemory { share: TraceShare::new(&replay.memory), before: 0 });
        Self { replay, options, answer }
    }

    /// When a run that begins now must end.
    fn deadline(&self) -> Option<Instant> {
        Instant::now().checked_add(self.options.timeout)
    }

    /// Runs a transaction under its inspector; returns the result, and the state changes.
    fn inspect(
        &self,
        evm: &mut BlockEvm<TraceInspector>,
        transaction: TxEnv,
        fees: Option<&Fees>,
        place: Option<TransactionContext>,
    ) -> Result<(TraceResult, Outcome), TraceError> {
        let outcome = match self.replay.inspect(evm, transaction.clone(), fees) {
            Ok(outcome) => outcome,
            Err(RunError::Trace(error)) => return Err(error),
            Err(RunError::Evm(failure)) => {
                return Err(run_error(RunFailure::from_evm(failure, &evm.ctx.chain), evm, &transaction));
            }
        };
        self.replay.ensure_awaited()?;
        let block = evm.ctx.block.clone();
        let state = &mut evm.ctx.journaled_state.database;
        let recorded = evm.inspector.recorded_bytes();
        if let ActiveTracer::Events(_) = &evm.inspector.tracer {
            let intrinsic = evm.ctx.cfg.gas_params.initial_tx_gas_for_tx(&transaction, None);
            let result = self.replay.take_answer(evm, (&transaction, fees), &outcome, intrinsic.initial_total_gas())?;
            self.accept(&result)?;
            return Ok((result, outcome));
        }
        let ActiveTracer::Library(tracer) = &mut evm.inspector.tracer else {
            return Err(TraceError::not_traced("no tracer"));
        };
        let result = match &mut tracer.inner {
            DebugInspector::Default(recorded, options) => {
                let nodes = recorded.traces().nodes();
                let check_limits = |length, capacity| self.check_limits(length, capacity);
                TraceResult::StructLog(struct_log(nodes, options, &outcome.result, check_limits)?)
            }
            other => {
                // The result contains a copy of the recording, or shares it.
                self.hold(recorded)?;
                let result = other.get_result(place, &transaction, &block, &outcome, state);
                let no_result = |error: String| TraceFailure::NoResult(NoTraceResult::Library { error });
                let mut result = result.map_err(|error| no_result(error.to_string()))?;
                tracer.amend(&mut result);
                self.replay.ensure_awaited()?;
                let result = trace_result(result)?;
                self.hold(recorded.saturating_add(result.size() as u64))?;
                result
            }
        };
        evm.inspector.end();
        self.accept(&result)?;
        Ok((result, outcome))
    }

    /// Checks that the caller is still waiting, that the result is not too large, and that there is memory for it.
    fn accept(&self, result: &TraceResult) -> Result<(), TraceError> {
        self.replay.ensure_awaited()?;
        check_size(result.size(), self.replay.source.limits())?;
        self.hold(result.size() as u64)
    }

    /// The same for the growing records of a struct log.
    fn check_limits(&self, length: usize, capacity: usize) -> Result<(), TraceError> {
        self.replay.ensure_awaited()?;
        check_size(length, self.replay.source.limits())?;
        self.hold(growing_bytes(length, capacity))
    }

    /// Reserves memory for a result of this size, in addition to those of earlier transactions.
    fn hold(&self, bytes: u64) -> Result<(), TraceError> {
        let AnswerMemory { share, before } = &mut *self.answer.borrow_mut();
        match share.hold(before.saturating_add(bytes)) {
            true => Ok(()),
            false => Err(TraceError::TooLarge { max_steps: self.replay.source.limits().trace_steps }),
        }
    }

    /// The inspector of a traced transaction.
    fn begin_trace(
        &self,
        inspector: &mut TraceInspector,
        precompiles: &MovedPrecompiles,
        place: ScriptPlace,
    ) -> Result<(), TraceError> {
        let Some(source) = self.options.script() else {
            inspector.begin_library(self.options.inspector()?, self.replay.source.limits().trace_steps);
            return Ok(());
        };
        let timeout = self.options.timeout;
        let watch = self.replay.scripts.watch(source, &SCRIPT_CONVENTIONS, precompiles, place, timeout)?;
        *inspector = TraceInspector::of_events(watch, &self.replay.memory);
        Ok(())
    }
}

/// Why a traced transaction has no outcome.
fn run_error(failure: RunFailure, evm: &BlockEvm<TraceInspector>, transaction: &TxEnv) -> TraceError {
    match failure {
        RunFailure::Message(invalid) => {
            TraceError::not_traced(invalid_transaction_text(&invalid, transaction, &evm.ctx.block))
        }
        failure => failure.into(),
    }
}
