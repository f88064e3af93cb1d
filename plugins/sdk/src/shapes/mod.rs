//! The JSON forms of chain data that several namespaces return (headers, blocks, transactions, receipts, logs) and of
//! the objects that several namespaces accept (calls and state overrides).
//!
//! This module owns the difference between the two profiles: [`Profile`] selects members here and nowhere else. On the
//! Ethereum profile the forms are those of go-ethereum and the public suite (`docs/spec/conformance.md` 3.2), on the
//! native profile those of the reference (`docs/spec/rpc-eth.md` 6). Nothing here sends requests to the node or builds
//! a tree of values: members are written once, in order, into one buffer.
//!
//! `alloy-rpc-types-eth` is not used: its members have another order than go-ethereum's. Of 22 blocks, transactions,
//! receipts and logs of the public suite, read and written by version 2.5.0, none that contained anything was equal
//! byte for byte.
//!
//! [`Profile`]: tenon_api::messages::Profile

mod address;
mod arguments;
mod block;
mod epoch_reward;
mod family_members;
mod log;
mod overrides;
mod pooled;
mod receipt;
pub mod schema;
mod simulation;
mod tracers;
mod traces;
mod transaction;
mod writer;

pub use address::spelled_address;
pub use arguments::CallArguments;
pub use block::{BlockJson, base64, write_header, write_header_by_seal, write_header_of_block, write_uncle};
pub use epoch_reward::epoch_reward_json;
pub use log::{LOG_JSON_BYTES, logs_json, logs_json_bytes, write_located_log, write_pending_log};
pub use overrides::{BlockOverridesArgument, StateOverridesArgument};
pub use pooled::{pooled_bytes, pooled_json_bytes};
pub use receipt::{block_receipts_json, receipt_json};
pub use simulation::{SimulationArgument, simulated_blocks_json};
pub use tracers::trace_options;
pub use traces::TraceText;
pub use transaction::{TransactionPlace, write_access_list, write_transaction};
pub use writer::JsonWriter;
