//! Differences of native chains from Ethereum in calls, estimates and simulated blocks (`docs/spec/rpc-eth.md` 4, 10).
//!
//! It owns the message of a call and its checks (`message`), state overrides (`overrides`), the search of an estimate
//! (`estimate`), and the choices of clients (`family`). `core/node` passes the result of [`simulation_of`] to
//! `tenon-simulation`.
//!
//! Invariant: a call runs by the rules of `tenon-native-execution`, except where the reference treats calls differently
//! from transactions.

#![forbid(unsafe_code)]

mod estimate;
mod family;
mod message;
mod overrides;

use std::sync::Arc;

use tenon_chain::ChainSpec;
use tenon_simulation_interface::SimulationFamily;

use family::NativeSimulation;

/// The simulation rules of a native chain; `None` for a chain of another family.
pub fn simulation_of(spec: &Arc<ChainSpec>) -> Option<Arc<dyn SimulationFamily>> {
    Some(Arc::new(NativeSimulation::of(spec)?))
}
