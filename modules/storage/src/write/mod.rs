//! The ways in which the chain's records change: a block or a group of old blocks is committed, a block is removed, a
//! branch replaces another, an old state is pruned, an old trie is thinned. Also writes the consensus engine's own
//! records, and records of blocks outside the chain. After a panic in one of them, `reload` reads from the disk again
//! what is kept in memory.

pub(crate) mod commit;
pub(crate) mod created;
mod engine;
mod finality;
mod group;
mod pending;
mod prune;
mod rebuild;
mod reload;
mod reorganise;
mod rules;
mod side_blocks;
pub(crate) mod thin;
pub(crate) mod unwind;
pub(crate) mod whole;
