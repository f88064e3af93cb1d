//! A node's identity on the peer-to-peer network: its secret key and the file that stores it, its public identifier,
//! the enode URLs that operators write, and node records (`docs/spec/p2p.md` 3).
//!
//! It owns every use of the node key: signatures and shared secrets are computed here, so that no other crate of the
//! network sees the secret.
//!
//! Invariants:
//!
//! - a secret is wiped on drop and has no `Debug` or `Display`;
//! - no input makes a parser panic;
//! - this crate opens no socket and reads no clock.

#![forbid(unsafe_code)]

mod enode;
mod key;
mod key_file;
mod node_id;
mod record;

pub use enode::{Endpoint, Enode};
pub use key::{KeyError, NodeKey, recover};
pub use key_file::{NodeKeyError, load_or_create, parse_key};
pub use node_id::{NodeId, NodeIdError};
pub use record::{MAX_RECORD_BYTES, NodeRecord, RecordBuilder, RecordError};
