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
    /// Requests in one batch. Default 10,000: the reference has no limit, and recordings of it contain batches of a
    /// little over 1,000.
    pub batch_items: usize,
    /// Concurrent calls of one batch. Default 16.
    pub batch_concurrency: usize,
    /// Bytes of one result. Default 64 MiB.
    pub response_bytes: usize,
    /// Bytes of all results of one batch. Default 25,000,000.
    pub batch_response_bytes: usize,
    /// Time limit for the calls of one message over WebSocket and the socket, `None` for no limit. Default 10 minutes.
    /// HTTP has its own, shorter limit instead.
    pub call_timeout: Option<Duration>,
    /// Total computing time of one message's jobs, `None` for no limit. Default 30 s.
    pub computing_time: Option<Duration>,
    /// Open subscriptions of one connection. Default 256.
    pub subscriptions: usize,
    /// Open subscriptions of one client on all its connections. Default 4,096.
    pub client_subscriptions: usize,
}

impl Default for EnvelopeLimits {
    fn default() -> Self {
        Self {
            batch_items: 10_000,
            batch_concurrency: 16,
            response_bytes: 64 << 20,
            batch_response_bytes: 25_000_000,
            call_timeout: Some(Duration::from_secs(600)),
            computing_time: Some(Duration::from_secs(30)),
            subscriptions: 256,
            client_subscriptions: 4_096,
        }
    }
}
