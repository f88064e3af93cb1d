//! Limits of calls, traces and fee queries.

use std::time::Duration;

use alloy_primitives::U256;

/// Limits of everything that clients can make this node execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// Maximum gas of a call, estimate or access list; zero means unlimited. go-ethereum's `--rpc.gascap`.
    pub call_gas_cap: u64,
    /// Maximum time of a call, estimate or access list. go-ethereum's `--rpc.evmtimeout`.
    pub call_timeout: Duration,
    /// Maximum time of a call on the request's own task; a longer call is run by the pool. The default is about twice
    /// the longest thread wake-up that this avoids.
    pub attempt_time: Duration,
    /// Maximum time of a traced transaction if the caller gives no `timeout`.
    pub trace_timeout: Duration,
    /// Maximum `timeout` that a caller may give; more is reduced to it.
    pub trace_timeout_max: Duration,
    /// Maximum number of instructions that one traced transaction may record.
    pub trace_steps: u64,
    /// Maximum memory of the recordings of all running traces together, bytes.
    pub trace_bytes: u64,
    /// Maximum size of the results of one trace request, bytes; below the largest frame that crosses the plugin
    /// boundary.
    pub trace_answer_bytes: u64,
    /// Maximum number of blocks of one fee history; more are silently cut off.
    pub fee_history_blocks: u64,
    /// The minimum suggested tip, wei per gas: the pool's minimum.
    pub min_tip: U256,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            call_gas_cap: 50_000_000,
            call_timeout: Duration::from_secs(5),
            attempt_time: Duration::from_micros(150),
            trace_timeout: Duration::from_secs(5),
            trace_timeout_max: Duration::from_secs(300),
            trace_steps: 10_000_000,
            trace_bytes: 1 << 30,
            trace_answer_bytes: 240 << 20,
            fee_history_blocks: 1024,
            min_tip: U256::ZERO,
        }
    }
}
