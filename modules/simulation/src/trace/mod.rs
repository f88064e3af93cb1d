//! Answers requests about executed blocks: traces (`debug_trace*`; `docs/spec/rpc-node.md` 4.2), witnesses,
//! intermediate roots and ranges of storage.
//!
//! What the traces of all families share is in `tenon-traces`; here are the steps of a request (`requests`) and the
//! tracers of Ethereum's chains (`ethereum_replay`).

mod ethereum_replay;
mod ethereum_results;
mod options;
mod reexecution;
mod requests;
mod storage_range;
mod struct_log;
mod witness;

pub use ethereum_replay::EthereumTracers;
