//! Limits of a client.

use std::time::Duration;

/// Limits of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSettings {
    /// Maximum length of an answer or notification, bytes; by default 65 MiB. A longer one ends the connection. The default
    /// is above that of the node's setting `rpc.response-max-size`, because the envelope needs some more.
    pub max_message_bytes: usize,
    /// Requests that wait to be written to the socket, by default 256; further calls wait before them. Calls that wait for
    /// their answers are not limited here: the node reads the next request of a connection when it may run it.
    pub max_unwritten_requests: usize,
    /// Items of a subscription that wait to be read, each of at most `max_message_bytes`; by default 1,024. One more closes
    /// the subscription.
    pub max_waiting_items: usize,
    /// Time limit for the connection; by default 10 s.
    pub connect_timeout: Duration,
    /// Time limit for the node to read a request; by default 30 s.
    pub write_timeout: Duration,
    /// Time limit for an answer; by default 60 s. The node itself may let a call run longer (`rpc.requesttimeout`).
    pub request_timeout: Duration,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            max_message_bytes: 65 << 20,
            max_unwritten_requests: 256,
            max_waiting_items: 1_024,
            connect_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(60),
        }
    }
}
