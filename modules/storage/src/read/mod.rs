//! How the database is read: what all readers share, past states, those of other branches, the search for logs, and how
//! a reader notices that the chain was unwound under it.

pub(crate) mod branch;
pub(crate) mod generation;
pub(crate) mod known;
pub(crate) mod listing;
pub(crate) mod log_search;
pub(crate) mod parts;
pub(crate) mod shared;
pub(crate) mod state;
