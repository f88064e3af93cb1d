//! What stands on disk: which columns there are, how keys and values are written, and the records that say what this
//! folder is.

pub(crate) mod columns;
pub(crate) mod keys;
pub(crate) mod meta;
pub(crate) mod migration;
pub(crate) mod records;
pub(crate) mod taken_off;
