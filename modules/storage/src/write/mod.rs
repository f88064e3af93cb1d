//! The four ways in which the chain changes: a block comes, a block goes, a branch takes the place of another, an old state
//! is forgotten. Beside it stands what the consensus engine keeps for itself, and what stays of blocks beside the chain.

mod aside;
pub(crate) mod commit;
mod engine;
mod pending;
mod prune;
mod reorganise;
mod rules;
pub(crate) mod unwind;
