//! Limits of a connection on which both sides may send.

use std::time::Duration;

use tokio::sync::Semaphore;

/// Limits of both WebSocket and the local socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DuplexLimits {
    pub(crate) calls_in_flight: usize,
    pub(crate) queued_bytes: usize,
    pub(crate) write_timeout: Duration,
    /// The connection ends if nothing is received for this long.
    pub(crate) silence: Option<Duration>,
    /// `keep_alive` is sent this often.
    pub(crate) ping_interval: Option<Duration>,
    pub(crate) subscriptions: usize,
}

impl DuplexLimits {
    /// Maximum number of concurrent calls: at least one, and at most a semaphore's maximum.
    pub(super) fn places(&self) -> usize {
        self.calls_in_flight.clamp(1, Semaphore::MAX_PERMITS)
    }
}
