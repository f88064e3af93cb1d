//! The three ways in which anything changes: a block comes, a block goes, an old state is forgotten.

pub(crate) mod commit;
mod prune;
pub(crate) mod unwind;
