//! Chains that are executed by two paths which must agree: a fresh database against one that grew block by block, an
//! import against the same import after unwinding, a past state against what was answered when it was the newest, the
//! log index against a plain scan, traces against receipts.
//!
//! It owns a node without network over the real database ([`Node`]), the dice ([`Dice`]), random transactions
//! ([`Traffic`]), what is remembered of every height ([`Memory`]), and the comparisons ([`compare`]).
//!
//! What must always hold: neither path knows the other's result; everything random follows from one seed, which is
//! printed and taken back from `TENON_SEED`. It knows no rule of the chain.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "whatever goes wrong here fails a test")]

pub mod compare;
mod dice;
mod memory;
pub mod native_traces;
mod node;
pub mod recorded;
mod traffic;

pub use dice::Dice;
pub use memory::Memory;
pub use node::Node;
pub use traffic::{Traffic, development_genesis, genesis_through_forks};
