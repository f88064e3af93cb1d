//! Follows the chain of the peers, without I/O: events and a clock go in, [`Action`]s come out (`docs/spec/p2p.md` 18, 19).
//!
//! [`ChainSync`] owns what is known of each peer's chain and what each was asked for. While a peer is far ahead, one `Cycle` brings the
//! chain to that peer's head: a skeleton of headers from that peer, the headers between from all of them, bodies from all of them,
//! and the blocks in order to the import. Near the head the `Fetcher` takes single blocks that peers send or announce.
//!
//! Invariants: one question of a kind is open with a peer at a time; what is held (headers, bodies, blocks that wait for their
//! parent) has a bound in items and bytes; a peer that is slow or wrong costs its own questions only; a peer is blamed for what it
//! sent itself, and the source of a skeleton for its headers; no body is kept that does not match its header.

#![forbid(unsafe_code)]

mod bodies;
mod bounded_set;
mod cycle;
mod fetcher;
mod headers;
mod peers;
mod port;
mod sync;

#[cfg(test)]
mod simulation;

pub use bounded_set::BoundedSet;
pub use port::{Action, CheckedBody, LocalChain, LocalHead, Question};
pub use sync::{ChainSync, Progress};
