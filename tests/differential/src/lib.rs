//! Chains executed along two paths that must agree:
//!
//! - a new database, and one that grew block by block;
//! - an import, and the same import after an unwind;
//! - a past state, and the answers while it was the newest;
//! - the log index, and a scan;
//! - traces, and receipts.
//!
//! It owns a node without network over the real database ([`Node`]), the random generator ([`SplitMix64`]), random
//! transactions ([`Traffic`]), the answers recorded at every height ([`Memory`]), and the comparisons ([`compare`]).
//!
//! Invariants: neither path knows the other's result; all random data derives from one seed, which is printed and can
//! be set by `TENON_SEED`. The crate knows no rule of the chain.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failure fails the test")]

pub mod compare;
mod memory;
pub mod native_traces;
mod node;
mod random;
pub mod recorded;
mod traffic;

pub use memory::Memory;
pub use node::Node;
pub use random::SplitMix64;
pub use traffic::{Traffic, development_genesis, genesis_through_forks};
