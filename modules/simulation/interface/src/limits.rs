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
    /// Maximum time of a call on the request's own task; a longer call is run by the pool.
    pub attempt_time: Duration,
    /// Maximum time of a traced transaction if the caller gives no `timeout`.
    pub trace_timeout: Duration,
    /// Maximum number of instructions that one traced transaction may record.
    pub trace_steps: u64,
    /// Maximum memory of the recordings of all running traces together, bytes.
    pub trace_bytes: u64,
    /// Maximum size of the results of one trace request, bytes.
    pub trace_answer_bytes: u64,
    /// The minimum suggested tip, wei per gas: the pool's minimum.
    pub min_tip: U256,
}

impl CallLimits {
    /// The node's [`CallLimits::attempt_time`]: about twice the longest thread wake-up that it avoids.
    pub const ATTEMPT_TIME: Duration = Duration::from_micros(150);
    /// The node's [`CallLimits::trace_answer_bytes`]: below the largest frame that crosses the plugin boundary.
    pub const TRACE_ANSWER_BYTES: u64 = 240 << 20;
    /// Maximum `timeout` that a caller may give for a traced transaction; more is reduced to it.
    pub const MAX_TRACE_TIMEOUT: Duration = Duration::from_secs(300);
    /// Maximum number of blocks of one fee history; more are silently cut off.
    pub const FEE_HISTORY_BLOCKS: u64 = 1024;
}
