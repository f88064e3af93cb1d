//! The rules of the Ethereum profile, one file a subject. Each function checks one rule and names it when
//! it is broken; the engines put them in order.

pub(crate) mod blobs;
pub(crate) mod body;
pub(crate) mod gas;
pub(crate) mod header;
pub(crate) mod ommers;
pub(crate) mod rewards;
