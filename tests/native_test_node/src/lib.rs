//! Native chains over a chain in memory, for the tests of their execution, simulation and traces: what
//! `tests/test_node` is to Ethereum chains.
//!
//! It owns the recorded chains of the reference client ([`recorded`]), with an engine that trusts their headers, and random
//! markets of the historic exchange ([`market`]).
//!
//! Invariant: it checks nothing that the code under test may have to refuse.

#![forbid(unsafe_code)]
#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure fails the test"
)]

use std::sync::Arc;

use tenon_api::{ChainReader, ConsensusEngine};
use tenon_bus::Bus;
use tenon_chain::ChainSpec;
use tenon_execution_interface::ChainFamily;
use tenon_native_execution::family_of;
use tenon_native_simulation::simulation_of;
use tenon_native_tracers::tracers_of;
use tenon_simulation::Families;
use tenon_test_node::TestResources;

pub mod market;
pub mod recorded;

/// Registers the handlers of calls, simulations, traces and fees of a native chain on the bus.
pub fn answer_calls(
    bus: &Bus,
    spec: &Arc<ChainSpec>,
    chain: Arc<dyn ChainReader>,
    engine: Arc<dyn ConsensusEngine>,
    resources: impl Into<TestResources>,
) {
    let simulation = simulation_of(spec).expect("the chain is native");
    let tracers = tracers_of(spec).expect("the chain is native");
    let families = Families { simulation, tracers };
    tenon_test_node::answer_calls(bus, rules_of_blocks(spec), families, chain, engine, resources);
}

/// The rules of blocks of a native chain.
pub fn rules_of_blocks(spec: &Arc<ChainSpec>) -> Arc<dyn ChainFamily> {
    family_of(spec).expect("the chain is native")
}
