//! The texts and codes of the node's typed errors: those that clients know from the reference and go-ethereum
//! (`docs/spec/rpc-eth.md` 10, 12).

mod pool;

pub use pool::pool_failure;
