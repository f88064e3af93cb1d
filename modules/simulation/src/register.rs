//! Registers this crate's handlers.

use std::sync::Arc;

use tenon_api::{
    ChainReader, ConsensusEngine,
    messages::{
        Call, CreateAccessList, EstimateGas, GetExecutionWitness, GetFeeHistory, GetIntermediateRoots,
        GetNextBlockFees, GetStorageRange, Simulate, SuggestGasPrice, SuggestTip, Trace,
    },
};
use tenon_bus::{Bus, RegisterError, WorkPool};
use tenon_execution_block::Executor;
use tenon_javascript::ScriptHost;
use tenon_simulation_interface::{CallError, SimulationFamily};
use tenon_traces::{RecordingMemory, TraceError, TraceFamily};

use crate::{
    CallResources,
    call::{Calls, LongCalls},
    fee::{FeeError, Fees},
    simulate::SimulateError,
};

/// What the chain's family decides about the requests of this crate.
#[derive(Clone)]
pub struct Families {
    /// About calls, simulated blocks and fees.
    pub simulation: Arc<dyn SimulationFamily>,
    /// Its tracers.
    pub tracers: Arc<dyn TraceFamily>,
}

/// Answers calls, estimates, access lists, simulations, traces, and requests about fees.
///
/// Everything that runs the EVM or reads many blocks is one job on `pool`, except short calls.
///
/// # Errors
/// [`RegisterError`] if one of these messages already has a handler.
pub fn register(
    bus: &Bus,
    chain: Arc<dyn ChainReader>,
    executor: Executor,
    families: Families,
    engine: Arc<dyn ConsensusEngine>,
    pool: &WorkPool,
    resources: CallResources,
) -> Result<(), RegisterError> {
    let CallResources { limits, memory, scripts } = resources;
    let Families { simulation: family, tracers } = families;
    let scripts = ScriptHost::new(scripts);
    let recording_memory = RecordingMemory::new(limits.trace_bytes, memory.clone());
    let long_calls = LongCalls::new();
    let fees = Fees::new(Arc::clone(executor.family().spec()), Arc::clone(&family), Arc::clone(&chain), limits);
    let calls =
        Calls { executor, family, tracers, chain, engine, limits, recording_memory, long_calls, memory, scripts };
    register_calls(bus, pool, &calls)?;
    register_fees(bus, pool, &fees)
}

fn register_calls(bus: &Bus, pool: &WorkPool, calls: &Calls) -> Result<(), RegisterError> {
    let (trying, own) = (calls.clone(), calls.clone());
    bus.handle_attempt(
        pool,
        move |request: &Call, caller| Some(trying.charged(CallError::reply(trying.attempt(request, caller)?), caller)),
        move |request, caller| own.charged(CallError::reply(own.run_call(&request, caller)), caller),
    )?;
    let (trying, own) = (calls.clone(), calls.clone());
    bus.handle_attempt(
        pool,
        move |request: &EstimateGas, caller| trying.attempt_estimate(request, caller).map(|gas| Ok(Ok(gas))),
        move |request, caller| own.charged(CallError::reply(own.estimate_gas(&request, caller)), caller),
    )?;
    let (trying, own) = (calls.clone(), calls.clone());
    bus.handle_attempt(
        pool,
        move |request: &CreateAccessList, caller| trying.attempt_access_list(request, caller).map(|list| Ok(Ok(list))),
        move |request, caller| CallError::reply(own.create_access_list(&request, caller)),
    )?;
    let own = calls.clone();
    bus.handle_work(pool, move |request: GetStorageRange, caller| {
        TraceError::reply(own.storage_range(&request, caller))
    })?;
    let own = calls.clone();
    bus.handle_work(pool, move |request: GetIntermediateRoots, caller| {
        TraceError::reply(own.intermediate_roots(&request, caller))
    })?;
    let own = calls.clone();
    bus.handle_work(pool, move |request: GetExecutionWitness, caller| {
        TraceError::reply(own.execution_witness(&request, caller))
    })?;
    let own = calls.clone();
    bus.handle_work(pool, move |request: Simulate, caller| SimulateError::reply(own.simulate(request, caller)))?;
    let (trying, own) = (calls.clone(), calls.clone());
    bus.handle_attempt(
        pool,
        move |request: &Trace, caller| Some(trying.charged(Ok(Ok(trying.attempt_trace(request, caller)?)), caller)),
        move |request, caller| own.charged(TraceError::reply(own.trace(&request, caller)), caller),
    )
}

fn register_fees(bus: &Bus, pool: &WorkPool, fees: &Fees) -> Result<(), RegisterError> {
    let own = fees.clone();
    let known = fees.clone();
    bus.handle_attempt(pool, move |_: &SuggestTip, _| known.known_tip().map(Ok), move |_, _| Ok(own.suggest_tip()?))?;
    let (known, own) = (fees.clone(), fees.clone());
    bus.handle_attempt(
        pool,
        move |_: &SuggestGasPrice, _| known.known_gas_price().map(Ok),
        move |_, _| Ok(own.suggest_gas_price()?),
    )?;
    let (known, own) = (fees.clone(), fees.clone());
    bus.handle_attempt(
        pool,
        move |request: &GetFeeHistory, _| known.attempt_fee_history(request).map(FeeError::reply),
        move |request, caller| FeeError::reply(own.fee_history(&request, caller)),
    )?;
    let own = fees.clone();
    bus.handle_read(move |_: GetNextBlockFees, _| Ok(own.next_block_fees()))
}
