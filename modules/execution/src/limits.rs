//! What a call, trace or fee question may cost.

use std::time::Duration;

use alloy_primitives::U256;
use tenon_bus::MemoryBudget;

/// Bounds of everything that clients can make this node execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutionLimits {
    /// Most gas of a call, estimate or access list; zero means no bound. go-ethereum's `--rpc.gascap`.
    pub call_gas_cap: u64,
    /// Longest run of a call, estimate or access list. go-ethereum's `--rpc.evmtimeout`.
    pub call_timeout: Duration,
    /// Longest run of a traced transaction when the caller names no `timeout`.
    pub trace_timeout: Duration,
    /// The largest `timeout` that a caller may name; more is cut to it.
    pub trace_timeout_max: Duration,
    /// Most instructions that one traced transaction may record.
    pub trace_steps: u64,
    /// Most memory that the recordings of all traces that run at a time may take together, bytes.
    pub trace_bytes: u64,
    /// Longest answer of one trace request, bytes; below the largest frame that crosses the plugin boundary.
    pub trace_answer_bytes: u64,
    /// Most blocks of one fee history; more are cut off silently.
    pub fee_history_blocks: u64,
    /// The lowest tip that is suggested, wei per gas: what the pool takes at least.
    pub least_tip: U256,
}

/// What everything that clients can make this node execute draws on.
#[derive(Clone, Debug, Default)]
pub struct CallResources {
    /// Bounds of one request.
    pub limits: ExecutionLimits,
    /// Memory of all requests.
    pub memory: MemoryBudget,
}

impl From<ExecutionLimits> for CallResources {
    /// Without a bound on the memory of all requests together.
    fn from(limits: ExecutionLimits) -> Self {
        Self { limits, memory: MemoryBudget::unbounded() }
    }
}

impl Default for ExecutionLimits {
    fn default() -> Self {
        Self {
            call_gas_cap: 50_000_000,
            call_timeout: Duration::from_secs(5),
            trace_timeout: Duration::from_secs(5),
            trace_timeout_max: Duration::from_secs(300),
            trace_steps: 10_000_000,
            trace_bytes: 1 << 30,
            trace_answer_bytes: 240 << 20,
            fee_history_blocks: 1024,
            least_tip: U256::ZERO,
        }
    }
}
