//! What the load generators share: the account of latencies.

#![forbid(unsafe_code)]

mod latencies;

pub use latencies::Latencies;
