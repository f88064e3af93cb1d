//! Simulating blocks that are on no chain (`eth_simulateV1`), as go-ethereum does (`docs/spec/upgrades.md` 11).
//!
//! A request names blocks ([`plan`]); each is executed by the same steps as a block of the chain
//! ([`block`], [`transaction`]), over the state that the block before left ([`state`]), which lives in memory only.
//!
//! What bounds a request: its blocks, calls and overrides ([`plan`]), the time of a call, the gas of a call over all
//! its transactions, the length of its answer, and the memory of traces and of its client.

mod block;
mod failures;
mod logs;
mod overrides;
mod plan;
mod state;
mod transaction;

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use tenon_api::{
    Failure, SealedHeader,
    messages::{Simulate, SimulatedBlock, SimulatedCall},
};
use tenon_bus::{CallContext, Origin};
use tenon_execution_interface::Interrupt;

use crate::{call::Calls, trace::TraceShare};
use state::SimulatedState;

/// Room of a block in the answer beside its calls, bytes.
const BLOCK_BYTES: u64 = 2_500;
/// Room of a call and its transaction in the answer beside data and logs, bytes.
const CALL_BYTES: u64 = 1_000;
/// Room of a log in the answer beside its data, bytes.
const LOG_BYTES: u64 = 900;

impl Calls {
    /// `eth_simulateV1`: executes blocks on top of a block and says what they did.
    ///
    /// # Errors
    /// A block or transaction that breaks a rule, in go-ethereum's words and with its codes; bounds that are reached.
    pub(crate) fn simulate(&self, request: Simulate, caller: &CallContext) -> Result<Vec<SimulatedBlock>, Failure> {
        let base = tenon_chain::require_block(&*self.chain, request.base)?;
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

/// What the caller wants of all blocks.
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
    /// Receiver of fees unless the caller gives one, on chains whose header does not name it.
    author: Address,
    parent: Arc<SealedHeader>,
    /// Sum of difficulties up to the parent.
    total_difficulty: U256,
    state: Arc<SimulatedState>,
    /// Gas that the transactions of all blocks may still use together.
    gas_left: u64,
    /// Length of the answer so far, as JSON, about.
    answer_bytes: u64,
    memory: TraceShare,
    /// Whose memory each block's run draws on.
    origin: Origin,
}

impl<'a> Simulation<'a> {
    fn new(
        calls: &'a Calls,
        base: &Arc<SealedHeader>,
        rules: SimulationRules,
        caller: &CallContext,
    ) -> Result<Self, Failure> {
        let author = calls.engine.author(base).map_err(|error| Failure::server(error.to_string()))?;
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

    /// Counts a call of the answer, and what it takes in memory.
    fn count_call(&mut self, input: usize, call: &SimulatedCall) -> Result<(), Failure> {
        let data: usize = call.logs.iter().map(|log| log.log.data.len()).sum();
        let failure = call.failure.as_ref().map_or(0, |failure| failure.message.len() * 2);
        let bytes = (input + call.returned.len() + data + failure) as u64;
        self.count(bytes.saturating_mul(2) + CALL_BYTES + LOG_BYTES * call.logs.len() as u64)
    }

    /// Counts a part of the answer.
    fn count(&mut self, bytes: u64) -> Result<(), Failure> {
        self.answer_bytes = self.answer_bytes.saturating_add(bytes);
        if self.answer_bytes > self.calls.limits.trace_answer_bytes {
            let most = self.calls.limits.trace_answer_bytes;
            return Err(failures::limit(format!("the answer is longer than {most} bytes; simulate fewer calls")));
        }
        if self.memory.hold(self.answer_bytes.saturating_add(self.state.weight())) {
            return Ok(());
        }
        Err(Failure::limit(
            "out of memory: the node has no memory left for this simulation; simulate fewer calls, or \
            try again later",
        ))
    }

    /// Refuses to go on when the time is over or the caller has gone.
    fn check_time(&self) -> Result<(), Failure> {
        self.interrupt
            .reason()
            .map_or(Ok(()), |stopped| Err(failures::stopped(stopped, self.calls.limits.call_timeout)))
    }
}
