//! All code that changes the chain's records: commits a block or a group of old blocks, removes a block, replaces a
//! branch by another, prunes an old state, thins an old trie. Also writes the consensus engine's own records, and
//! records of blocks outside the chain. After a panic in a change, `reload` reads from the disk again what is kept in
//! memory.

pub(crate) mod commit;
pub(crate) mod created;
mod engine;
mod finality;
mod group;
mod missing_nodes;
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
