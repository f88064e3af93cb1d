//! The three ways in which the chain changes: a block comes, a block goes, an old state is forgotten. Beside it stands what
//! the consensus engine keeps for itself, and what stays of blocks beside the chain.

mod aside;
pub(crate) mod commit;
mod engine;
mod prune;
pub(crate) mod unwind;
