//! Simulating blocks that are on no chain (`eth_simulateV1`), as go-ethereum does (`docs/spec/upgrades.md` 11).
//!
//! A request contains blocks ([`plan`]). Each is executed by the same steps as a block of the chain ([`block`],
//! [`transaction`]), over the state after the previous block ([`state`]), which exists in memory only.
//!
//! A request is bounded by the number of its blocks, calls and overrides ([`plan`]), the time limit of a call, the gas
//! limit of a call for all its transactions together, the length of its answer, and the memory of traces and of its
//! client.

mod block;
mod error;
mod logs;
mod overrides;
mod plan;
mod state;
mod transaction;

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use tenon_api::{
    SealedHeader,
    messages::{Simulate, SimulatedBlock, SimulatedCall, SimulatedFailure, SimulationFailure},
};
use tenon_bus::{CallContext, Origin};
use tenon_execution_interface::Interrupt;
use tenon_simulation_interface::CallError;
use tenon_traces::TraceShare;

use crate::call::{Calls, reason_length};
use state::SimulatedState;

pub(crate) use error::SimulateError;

/// Size of a block in the answer without its calls, bytes.
const BLOCK_BYTES: u64 = 2_500;
/// Size of a call and its transaction in the answer without data and logs, bytes.
const CALL_BYTES: u64 = 1_000;
/// Size of a log in the answer without its data, bytes.
const LOG_BYTES: u64 = 900;

impl Calls {
    /// `eth_simulateV1`: executes blocks on top of a block and returns their results.
    ///
    /// # Errors
    /// A block or transaction that breaks a rule, [`SimulationFailure`]; limits that were exceeded.
    pub(crate) fn simulate(
        &self,
        request: Simulate,
        caller: &CallContext,
    ) -> Result<Vec<SimulatedBlock>, SimulateError> {
        let base = tenon_chain::require_block(&*self.chain, request.base).map_err(CallError::from)?;
        let blocks = plan::plan(&base, request.blocks)?;
        let rules = SimulationRules { traces_transfers: request.traces_transfers, validates: request.validates };
        let mut simulation = Simulation::new(self, &base, rules, caller)?;
        let mut simulated = Vec::with_capacity(blocks.len());
        for block in blocks {
            simulated.push(simulation.run(block)?);
        }
        Ok(simulated)
    }
}

/// The caller's options for all blocks.
#[derive(Clone, Copy)]
struct SimulationRules {
    traces_transfers: bool,
    validates: bool,
}

/// A simulation between two of its blocks. Belongs to one request, on one thread.
struct Simulation<'a> {
    calls: &'a Calls,
    rules: SimulationRules,
    /// Stops all blocks together.
    interrupt: Interrupt,
    /// Author of the base block. Receives the fees on chains whose header does not name a receiver, unless the caller
    /// gives one.
    author: Address,
    parent: Arc<SealedHeader>,
    /// Sum of difficulties up to the parent.
    total_difficulty: U256,
    state: Arc<SimulatedState>,
    /// Gas that the transactions of all blocks may still use together.
    gas_left: u64,
    /// Approximate length of the answer so far as JSON, bytes.
    answer_bytes: u64,
    memory: TraceShare,
    /// The client from whose share the memory of each block's run is reserved.
    origin: Origin,
}

impl<'a> Simulation<'a> {
    fn new(
        calls: &'a Calls,
        base: &Arc<SealedHeader>,
        rules: SimulationRules,
        caller: &CallContext,
    ) -> Result<Self, CallError> {
        let author = calls.engine.author(base)?;
        let state = SimulatedState::new(calls.reader_for(base, caller)?, calls.trie_of(base, caller)?, base.number);
        let gas_cap = calls.limits.call_gas_cap;
        Ok(Self {
            calls,
            rules,
            interrupt: calls.interrupt(caller),
            author,
            parent: Arc::clone(base),
            total_difficulty: calls.chain.total_difficulty(base.hash())?.unwrap_or_default(),
            state: Arc::new(state),
            gas_left: if gas_cap == 0 { u64::MAX } else { gas_cap },
            answer_bytes: 0,
            memory: TraceShare::new(&calls.recording_memory.of(caller.origin())),
            origin: caller.origin(),
        })
    }

    /// Counts a call towards the size of the answer and its memory.
    fn count_call(&mut self, input: usize, call: &SimulatedCall) -> Result<(), SimulateError> {
        let data: usize = call.logs.iter().map(|log| log.log.data.len()).sum();
        let failure = match &call.failure {
            Some(SimulatedFailure::Reverted { output }) => reason_length(output) * 2 + output.len(),
            Some(SimulatedFailure::Halted { cause, .. }) => cause.len() * 2,
            None => 0,
        };
        let bytes = (input + call.returned.len() + data + failure) as u64;
        self.count(bytes.saturating_mul(2) + CALL_BYTES + LOG_BYTES * call.logs.len() as u64)
    }

    /// Counts a part of the answer.
    fn count(&mut self, bytes: u64) -> Result<(), SimulateError> {
        self.answer_bytes = self.answer_bytes.saturating_add(bytes);
        let max = self.calls.limits.trace_answer_bytes;
        if self.answer_bytes > max {
            return Err(SimulationFailure::AnswerTooLong { max }.into());
        }
        if self.memory.hold(self.answer_bytes.saturating_add(self.state.weight())) {
            return Ok(());
        }
        Err(SimulateError::OutOfMemory)
    }

    /// Fails if the time limit has passed or the caller has disconnected.
    fn check_time(&self) -> Result<(), CallError> {
        self.interrupt.reason().map_or(Ok(()), |reason| Err(error::stopped(reason, &self.calls.limits)))
    }
}
