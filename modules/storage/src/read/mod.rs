//! Reading the database: shared data of all readers, past states, states of other branches, encoded blocks, log search, and detection
//! of concurrent unwinds.

pub(crate) mod branch;
pub(crate) mod encoded;
pub(crate) mod generation;
pub(crate) mod listing;
pub(crate) mod log_search;
pub(crate) mod old_trie;
pub(crate) mod outline;
pub(crate) mod parts;
pub(crate) mod shared;
pub(crate) mod state;
pub(crate) mod state_cache;
