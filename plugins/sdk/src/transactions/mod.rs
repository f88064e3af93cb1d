//! Transactions for the node to sign: completes what the caller omitted and shows the signed result. For namespaces
//! that sign with the node's accounts.

mod filling;
mod signed;

pub use filling::{fill, fill_for_access_list, with_nonce};
pub use signed::{signed_json, unsigned_hash, unsigned_json};
