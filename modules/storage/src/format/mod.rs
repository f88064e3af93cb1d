//! The format on disk: columns, encodings of keys and values, and records on the folder itself.

pub(crate) mod bodies;
pub(crate) mod columns;
pub(crate) mod keys;
pub(crate) mod meta;
pub(crate) mod migration;
pub(crate) mod records;
pub(crate) mod side_block;
