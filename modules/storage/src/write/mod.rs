//! The four ways in which the chain changes: a block is committed, a block is removed, a branch replaces another, an
//! old state is pruned. Also the consensus engine's own records, and records of blocks outside the chain.

mod aside;
pub(crate) mod commit;
mod engine;
mod pending;
mod prune;
mod reorganise;
mod rules;
pub(crate) mod unwind;
