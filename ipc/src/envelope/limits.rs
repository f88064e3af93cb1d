//! Limits of the envelope.

use std::time::Duration;

/// Limits of one message. Part of every front-end's limits.
///
/// | Bound | What its caller sees |
/// |---|---|
/// | `batch_items` | one error object: `-32005 batch too large: N requests, at most M` |
/// | `response_bytes` | that call fails: `-32003 response too large: N bytes, at most M` |
/// | `batch_response_bytes` | every call from there on fails: `-32003 response too large: batch beyond M bytes` |
/// | `call_timeout` | that call fails: `-32005 request timed out` |
/// | `computing_time` | that call and those after it fail: `-32005 the computing time of this message is used up; …` |
/// | `subscriptions` | that call fails: `-32005 too many subscriptions: at most N on a connection` |
/// | `client_subscriptions` | that call fails: `-32005 too many subscriptions: at most N of a client` |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvelopeLimits {
    /// Requests in one batch.
    pub batch_items: usize,
    /// Concurrent calls of one batch.
    pub batch_concurrency: usize,
    /// Bytes of one result.
    pub response_bytes: usize,
    /// Bytes of all results of one batch.
    pub batch_response_bytes: usize,
    /// Time limit for the calls of one message over WebSocket and the socket, `None` for no limit. HTTP has its own, shorter
    /// limit instead.
    pub call_timeout: Option<Duration>,
    /// Total computing time of one message's jobs, `None` for no limit.
    pub computing_time: Option<Duration>,
    /// Open subscriptions of one connection.
    pub subscriptions: usize,
    /// Open subscriptions of one client on all its connections.
    pub client_subscriptions: usize,
}

impl EnvelopeLimits {
    /// The node's [`EnvelopeLimits::batch_concurrency`].
    pub const BATCH_CONCURRENCY: usize = 16;
}
