//! The histogram of latencies shared by the load generators.

#![forbid(unsafe_code)]

mod latencies;

pub use latencies::Latencies;
