//! The transaction pool: signed transactions that wait for a block.
//!
//! It owns the waiting transactions, the rules for accepting, replacing and evicting them, and the journal that
//! restores the local ones after a restart. A `PoolPolicy` of `tenon-txpool-interface` contains the rules of a chain
//! family; Ethereum's is here ([`EthereumPolicy`]). The pool answers its requests ([`register`]) and publishes an event
//! when a transaction becomes executable. A supervised actor ([`spawn_pool`]) applies the changes of the chain; after a
//! panic in one of them, its successor reads the head again.
//!
//! Invariants:
//!
//! - a transaction in the pool has a recovered sender;
//! - a sender's *pending* transactions are the unbroken run of nonces from the account's own that its balance pays for
//!   together, all others are *queued*;
//! - memory is bounded by a number of slots, and local transactions, which are never evicted for others, by a share of
//!   them;
//! - queued transactions are evicted before executable ones;
//! - the lock is never held during signature recovery, proof verification, file or database access, so that reads wait
//!   for a few map operations at most.
//!
//! The pool executes nothing and decides no block.

#![forbid(unsafe_code)]

mod actor;
mod blobs;
mod entry;
mod ethereum;
#[cfg(test)]
mod fake_chain;
mod follow;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod handlers;
mod journal;
mod order;
mod pool;
mod pool_options;
mod recent;
mod sender;
mod state;
mod validation;

pub use actor::{ACTOR, PoolFeed, spawn_pool};
pub use ethereum::EthereumPolicy;
pub use handlers::register;
pub use journal::JournalError;
pub use pool::Pool;
pub use pool_options::PoolOptions;
