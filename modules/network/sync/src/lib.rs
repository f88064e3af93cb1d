//! Follows the chain of the peers, without I/O: events and a clock go in, [`Action`]s come out (`docs/spec/p2p.md` 18, 19).
//!
//! [`ChainSync`] owns the known head of each peer's chain and the open requests to it. While a peer is far ahead, one
//! `Cycle` brings the chain to that peer's head: it requests a skeleton of headers from that peer, and the headers
//! between and the bodies from all peers, and passes the blocks to the import in order. Near the head the `Fetcher`
//! takes single blocks that peers send or announce. `Exclusions` remembers the peers with which cycles failed. `Lag`
//! decides whether the node is far behind.
//!
//! Invariants:
//!
//! - at most one request of each kind is open with a peer;
//! - headers, bodies, and blocks that wait for their parent have a bound in items and bytes;
//! - a slow or wrong peer delays only the requests to it;
//! - a peer's claim alone never makes a node with a recent head count as far behind;
//! - a cycle without new blocks ends;
//! - a peer is penalised only for its own messages, and for wrong headers of a skeleton the skeleton's source;
//! - no body is kept that does not match its header.

#![forbid(unsafe_code)]

mod announcements;
mod bodies;
mod bounded_set;
mod cycle;
mod exclusions;
mod fetcher;
mod headers;
mod lag;
mod peers;
mod port;
mod sync;

#[cfg(test)]
mod simulation;

pub use bounded_set::BoundedSet;
pub use port::{Action, CheckedBody, LocalChain, LocalHead, SyncRequest};
pub use sync::{ChainSync, Progress};
