//! Traces like the reference's (`docs/spec/rpc-node.md` 4.2).
//!
//! In the reference, a traced transaction is an ordinary message, even if the block does not execute it, and its fee is
//! not paid to an owner. When a single transaction is traced, the transactions before it are executed like in the
//! block; when the whole block is traced, they are messages as well.

use std::{sync::Arc, time::Instant};

use revm::context::{
    BlockEnv, TxEnv,
    result::{EVMError, InvalidTransaction},
};
use tenon_api::{
    Block, BlockId, RecoveredBlock, SealedHeader, Transaction,
    messages::{TraceFailure, TraceOptions, TraceResult, TraceTarget, Tracer, TransactionTrace},
};
use tenon_execution_interface::{BlockEvm, Fees, MovedPrecompiles, Outcome, StateError, TransactionRejection};
use tenon_native_execution::{address_text, is_skipped_by_traces};
use tenon_simulation_interface::{MAX_ATTEMPTED_GAS, Payer, RunFailure, instruction_name, invalid_transaction_text};
use tenon_traces::{
    Replay, ReplayedBlock, RunError, ScriptConventions, ScriptInterface, ScriptPlace, ScriptSource, TraceError,
    TraceInspector, TraceShare, Tracing, Watch, check_size, timeout_of,
};

use crate::options::watch_of;

/// How the reference's scripts run.
const SCRIPT_CONVENTIONS: ScriptConventions = ScriptConventions {
    interface: ScriptInterface::REFERENCE,
    instruction_name: |opcode| instruction_name(opcode).into_owned(),
    counts_whole_transaction: false,
};

/// A trace request for the reference's tracers.
pub(super) struct ReferenceTracing<'a> {
    replay: Replay<'a>,
    options: &'a TraceOptions,
}

/// Result of a message under a tracer.
struct Traced {
    /// The tracer's answer.
    answer: Result<TraceResult, TraceError>,
    /// The message's effects.
    outcome: Outcome,
    /// Whether a contract requested a price of the historic exchange, which a run without a tracer would get.
    lacks_prices: bool,
}

/// Why a message has no outcome.
#[derive(derive_more::From)]
enum NoOutcome {
    /// It is not valid, in the words of the reference, which its traces show too.
    Refused(String),
    /// It was not run, or was stopped early.
    #[from]
    Other(TraceError),
}

impl NoOutcome {
    fn into_error(self) -> TraceError {
        match self {
            Self::Refused(reason) => TraceError::not_traced(reason),
            Self::Other(error) => error,
        }
    }
}

impl Tracing for ReferenceTracing<'_> {
    fn replay(&self) -> &Replay<'_> {
        &self.replay
    }

    fn records_calls_only(&self) -> bool {
        matches!(self.options.tracer, Tracer::Calls(_))
    }

    /// Only the header is checked, as in the reference.
    fn check_raw_block(&self, block: &Block) -> Result<(), TraceError> {
        let Replay { source, .. } = &self.replay;
        if source.chain().header(block.header.hash())?.is_some() {
            return Ok(());
        }
        let parent = source.chain().header(block.header.parent_hash)?;
        let parent = parent.ok_or(TraceFailure::UnknownAncestor)?;
        Ok(source.engine().verify_header(&block.header, &parent, &**source.chain())?)
    }

    fn trace_transaction(
        &self,
        execution: &mut ReplayedBlock,
        block: &RecoveredBlock,
        index: usize,
    ) -> Result<TraceResult, TraceError> {
        let (transaction, sender) = self.replay.transaction_and_sender(block, index)?;
        let (env, fees) = execution.prepare_message(transaction, sender).map_err(not_traced)?;
        let fees = for_trace(fees, transaction);
        let watch = self.tracer_of_transaction(execution, block, index, &env)?;
        self.trace(execution.evm_mut(), env, &fees, watch).map_err(NoOutcome::into_error)?.answer
    }

    fn trace_block(&self, block: &RecoveredBlock) -> Result<Vec<TransactionTrace>, TraceError> {
        let mut execution = self.replay.open(block)?;
        let mut traces = Vec::with_capacity(block.transactions.len());
        let (mut size, mut memory) = (0, TraceShare::new(&self.replay.memory));
        for (index, transaction) in block.transactions.iter().enumerate() {
            self.replay.ensure_awaited()?;
            let result = self.trace_transaction_of_block(&mut execution, block, index)?;
            let result = result.map_err(TraceError::into_failure);
            let trace = TransactionTrace { hash: transaction.hash, result };
            size += trace.size();
            traces.push(trace);
            check_size(size, self.replay.source.limits())?;
            if !memory.hold(size as u64) {
                return Err(TraceError::TooLarge { max_steps: self.replay.source.limits().trace_steps });
            }
        }
        Ok(traces)
    }

    fn trace_call(&self, target: &TraceTarget) -> Result<TraceResult, TraceError> {
        let TraceTarget::Call { request, block, transaction_index, state_overrides, block_overrides } = target else {
            return Err(TraceError::NotCall);
        };
        let Replay { source, caller, attempt_ends, .. } = &self.replay;
        let (header, mut state) = match (transaction_index, *attempt_ends) {
            (None, Some(end)) => source.base(*block, caller, Some(end))?,
            (None, None) => {
                let header = self.header_of_call(*block)?;
                let state = source.state_after(&header, caller)?;
                (header, state)
            }
            (Some(index), _) => {
                let block = self.block(*block)?;
                let header = Arc::new(block.header.clone());
                (header, self.replay.state_before(&block, *index)?)
            }
        };
        let mut environment = source.prepare(&header, &mut state, request, state_overrides, block_overrides)?;
        let message = environment.transaction.clone();
        if attempt_ends.is_some() && message.gas_limit > MAX_ATTEMPTED_GAS {
            return Err(TraceError::NotAttempted);
        }
        let balance = state.whole_balance(message.caller)?;
        // The reference checks the tracer's options before the message.
        let place = ScriptPlace { block: header.number, transaction: None, gas_limit: message.gas_limit };
        let watch = self.watch(&environment.precompiles, place)?;
        environment.call_rules.pay_by(Payer::Account(balance));
        environment.call_rules.check(&message).map_err(|failure| match failure {
            RunFailure::Message(invalid) => {
                TraceError::not_traced(refusal_text(&invalid, &message, &environment.block))
            }
            failure => failure.into(),
        })?;
        let idle = TraceInspector::idle(&self.replay.memory);
        let mut evm = environment.evm(state, self.replay.interrupt(None), idle);
        let fees = Fees { own: environment.call_rules.own_prices(), ..Fees::BURNED };
        self.trace(&mut evm, message, &fees, watch).map_err(NoOutcome::into_error)?.answer
    }
}

impl<'a> ReferenceTracing<'a> {
    pub(super) const fn new(replay: Replay<'a>, options: &'a TraceOptions) -> Self {
        Self { replay, options }
    }

    /// Traces a transaction of a block, and applies its effects for the later ones.
    ///
    /// # Errors
    /// Why no later transaction can be traced either. The inner error concerns this transaction only.
    fn trace_transaction_of_block(
        &self,
        execution: &mut ReplayedBlock,
        block: &RecoveredBlock,
        index: usize,
    ) -> Result<Result<TraceResult, TraceError>, TraceError> {
        let (transaction, sender) = self.replay.transaction_and_sender(block, index)?;
        let is_skipped = is_skipped_by_traces(transaction);
        let (env, fees) = match execution.prepare_message(transaction, sender) {
            Ok(prepared) => prepared,
            Err(rejection) if is_skipped => return Ok(Err(not_traced(rejection))),
            Err(rejection) => return Err(rejection.into()),
        };
        let fees = for_trace(fees, transaction);
        let traced = match self.tracer_of_transaction(execution, block, index, &env) {
            Ok(watch) => self.trace(execution.evm_mut(), env.clone(), &fees, watch),
            Err(error) => Err(error.into()),
        };
        let (answer, outcome) = match traced {
            // Later transactions follow a run whose contracts got prices.
            Ok(traced) if traced.lacks_prices && !is_skipped => {
                (traced.answer, self.run_message(execution.evm_mut(), env, &fees)?)
            }
            Ok(traced) => (traced.answer, traced.outcome),
            Err(NoOutcome::Refused(reason)) if is_skipped => return Ok(Err(TraceError::not_traced(reason))),
            Err(NoOutcome::Refused(reason)) => return Err(TraceFailure::InvalidTransaction { reason }.into()),
            Err(NoOutcome::Other(error)) if is_skipped => return Ok(Err(error)),
            Err(NoOutcome::Other(error)) => (Err(error), self.run_message(execution.evm_mut(), env, &fees)?),
        };
        if !is_skipped {
            execution.apply_message(outcome).map_err(|StateError(error)| error)?;
        }
        Ok(answer)
    }

    fn header_of_call(&self, id: BlockId) -> Result<Arc<SealedHeader>, TraceError> {
        let found = tenon_chain::resolve_block(&**self.replay.source.chain(), id)?;
        found.ok_or_else(|| TraceError::unknown_block(id))
    }

    /// The tracer of a transaction of a block.
    fn tracer_of_transaction(
        &self,
        execution: &mut ReplayedBlock,
        block: &RecoveredBlock,
        index: usize,
        message: &TxEnv,
    ) -> Result<Watch, TraceError> {
        let transaction = block.transactions.get(index).map(|member| (block.hash(), index as u64, member.hash));
        let place = ScriptPlace { block: block.header.number, transaction, gas_limit: message.gas_limit };
        self.watch(execution.evm_mut().precompiles.places(), place)
    }

    /// A new tracer.
    fn watch(&self, precompiles: &MovedPrecompiles, place: ScriptPlace) -> Result<Watch, TraceError> {
        let timeout = timeout_of(self.options, self.replay.source.limits().trace_timeout);
        let scripts = |source: ScriptSource<'_>| {
            self.replay.scripts.watch(source, &SCRIPT_CONVENTIONS, precompiles, place, timeout)
        };
        watch_of(&self.options.tracer, precompiles, scripts)
    }

    /// Runs a message without a tracer.
    fn run_message(
        &self,
        evm: &mut BlockEvm<TraceInspector>,
        message: TxEnv,
        fees: &Fees,
    ) -> Result<Outcome, TraceError> {
        let outcome = self.replay.transact(evm, message.clone(), Some(fees));
        outcome.map_err(|error| match no_outcome(error, evm, &message) {
            NoOutcome::Refused(reason) => TraceFailure::InvalidTransaction { reason }.into(),
            NoOutcome::Other(error) => error,
        })
    }

    /// Runs a message under a tracer: returns the tracer's answer, and the message's effects. Its contracts get no
    /// prices of the exchange, because the reference's tracers have no trading state.
    fn trace(
        &self,
        evm: &mut BlockEvm<TraceInspector>,
        message: TxEnv,
        fees: &Fees,
        watch: Watch,
    ) -> Result<Traced, NoOutcome> {
        let timeout = timeout_of(self.options, self.replay.source.limits().trace_timeout);
        evm.inspector = TraceInspector::of_events(watch, &self.replay.memory);
        evm.ctx.chain = self.replay.interrupt(Instant::now().checked_add(timeout));
        let prices = evm.precompiles.set_records(None);
        let outcome = self.replay.inspect(evm, message.clone(), Some(fees));
        let lacks_prices = evm.precompiles.has_read_records() && prices.is_some();
        evm.precompiles.set_records(prices);
        let outcome = outcome.map_err(|error| no_outcome(error, evm, &message))?;
        let intrinsic = intrinsic_gas(&message, evm.ctx.cfg.spec);
        let answer = self.replay.take_answer(evm, (&message, Some(fees)), &outcome, intrinsic);
        let answer = answer.and_then(|result| check_size(result.size(), self.replay.source.limits()).map(|()| result));
        Ok(Traced { answer, outcome, lacks_prices })
    }
}

/// Why a message is not valid, with addresses in the reference's form.
fn refusal_text(invalid: &InvalidTransaction, message: &TxEnv, block: &BlockEnv) -> String {
    let text = invalid_transaction_text(invalid, message, block);
    text.replace(&message.caller.to_string(), &address_text(message.caller))
}

fn no_outcome(error: RunError, evm: &BlockEvm<TraceInspector>, message: &TxEnv) -> NoOutcome {
    match error {
        RunError::Trace(error) => error.into(),
        RunError::Evm(EVMError::Transaction(invalid)) => {
            NoOutcome::Refused(refusal_text(&invalid, message, &evm.ctx.block))
        }
        RunError::Evm(failure) => NoOutcome::Other(RunFailure::from_evm(failure, &evm.ctx.chain).into()),
    }
}

fn not_traced(rejection: TransactionRejection) -> TraceError {
    match rejection {
        TransactionRejection::Store(error) => error.into(),
        rejection => TraceError::not_traced(rejection),
    }
}

/// A message without a price is not compared with the base fee.
fn for_trace(fees: Option<Fees>, transaction: &Transaction) -> Fees {
    let mut fees = fees.unwrap_or(Fees::BURNED);
    fees.is_exempt_from_base_fee |= transaction.max_fee_per_gas().is_zero();
    fees
}

/// Intrinsic gas of a message as seen by the reference's scripts: without its access list.
fn intrinsic_gas(message: &TxEnv, fork: revm::primitives::hardfork::SpecId) -> u64 {
    use revm::primitives::hardfork::SpecId;
    let is_creation = message.kind.is_create();
    let is_metered_creation = is_creation && fork.is_enabled_in(SpecId::SHANGHAI);
    let length = message.data.len() as u64;
    let zeroes = message.data.iter().filter(|byte| **byte == 0).count() as u64;
    let base = if is_creation && fork.is_enabled_in(SpecId::HOMESTEAD) { 53_000 } else { 21_000 };
    let words = if is_metered_creation { length.div_ceil(32) } else { 0 };
    base + zeroes * 4 + (length - zeroes) * 68 + words * 2
}
