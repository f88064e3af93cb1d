//! Resources for calls, traces and fee queries.

use tenon_bus::MemoryBudget;
use tenon_javascript::ScriptOptions;
use tenon_simulation_interface::CallLimits;

/// Resources for everything that clients can make this node execute.
#[derive(Clone, Debug)]
pub struct CallResources {
    /// Limits of one request.
    pub limits: CallLimits,
    /// Memory of all requests.
    pub memory: MemoryBudget,
    /// How tracers written in JavaScript run.
    pub scripts: ScriptOptions,
}
