//! The rules of the Ethereum profile, one file per subject. Each function checks one rule and names it in its error;
//! the engines call them in order.

pub(crate) mod blobs;
pub(crate) mod body;
pub(crate) mod gas;
pub(crate) mod header;
pub(crate) mod ommers;
pub(crate) mod rewards;
