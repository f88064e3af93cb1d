//! The histogram of latencies shared by the load generators.
//!
//! It owns [`Latencies`] and nothing else; the load generator itself is the program of this package.
//!
//! Invariants: the memory of a histogram does not grow with the number of latencies, and counting one allocates
//! nothing, so that the measurement does not disturb what it measures. The crate sends no request and reads no clock.

#![forbid(unsafe_code)]

mod latencies;

pub use latencies::Latencies;
