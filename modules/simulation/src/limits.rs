//! Resources for calls, traces and fee queries.

use tenon_bus::MemoryBudget;
use tenon_javascript::ScriptOptions;
use tenon_simulation_interface::CallLimits;

/// Resources for everything that clients can make this node execute.
#[derive(Clone, Debug, Default)]
pub struct CallResources {
    /// Limits of one request.
    pub limits: CallLimits,
    /// Memory of all requests.
    pub memory: MemoryBudget,
    /// How tracers written in JavaScript run.
    pub scripts: ScriptOptions,
}

impl From<CallLimits> for CallResources {
    /// Without a limit on the memory of all requests together, and with scripts in threads.
    fn from(limits: CallLimits) -> Self {
        Self { limits, memory: MemoryBudget::unbounded(), scripts: ScriptOptions::in_threads() }
    }
}
