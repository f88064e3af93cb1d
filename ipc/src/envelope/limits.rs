//! Bounds of the envelope.

use std::time::Duration;

/// What one message may ask for and get. Part of every front-end's limits.
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
    /// Requests in one batch. Default 10,000: the reference has no bound, and batches of a little over 1,000
    /// are recorded from it.
    pub batch_items: usize,
    /// Calls of one batch that run at the same time. Default 16.
    pub batch_concurrency: usize,
    /// Bytes of one result. Default 64 MiB.
    pub response_bytes: usize,
    /// Bytes of all results of one batch. Default 64 MiB.
    pub batch_response_bytes: usize,
    /// How long the calls of one message may take over WebSocket and the socket, `None` for ever. Default 10
    /// minutes. HTTP has a shorter limit of its own instead.
    pub call_timeout: Option<Duration>,
    /// How long the jobs of one message may compute in all, `None` for ever. Default 30 s.
    pub computing_time: Option<Duration>,
    /// Open subscriptions of one connection. Default 256.
    pub subscriptions: usize,
    /// Open subscriptions of one client, whatever its connections. Default 4,096.
    pub client_subscriptions: usize,
}

impl Default for EnvelopeLimits {
    fn default() -> Self {
        Self {
            batch_items: 10_000,
            batch_concurrency: 16,
            response_bytes: 64 << 20,
            batch_response_bytes: 64 << 20,
            call_timeout: Some(Duration::from_secs(600)),
            computing_time: Some(Duration::from_secs(30)),
            subscriptions: 256,
            client_subscriptions: 4_096,
        }
    }
}
