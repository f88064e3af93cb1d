//! The transaction pool: what has been signed and waits for a block.
//!
//! It owns the waiting transactions, the rules by which one is taken in, replaced or thrown out, and the
//! journal that brings the local ones back after a restart. It answers the pool's requests ([`register`]) and
//! announces a transaction when it becomes executable.
//!
//! What must always hold: a transaction in the pool has a recovered sender; a sender's *pending* transactions
//! are the unbroken run of nonces from the account's own that its balance pays for all together, everything else is
//! *queued*; memory is bounded by slots whatever arrives, and local transactions, which are never thrown out for others,
//! by a share of them; what can't be executed gives way to what can; the lock is never held over signature recovery, proof
//! verification, files or the database, so that reads wait for a few map operations at most. The pool executes
//! nothing and decides no block.

#![forbid(unsafe_code)]

mod blobs;
mod entry;
mod error;
#[cfg(test)]
mod fake_chain;
mod follow;
#[doc(hidden)]
pub mod fuzzing;
mod handlers;
mod journal;
mod native;
mod options;
mod order;
mod pool;
mod recent;
mod sender;
mod senders;
mod state;
mod validation;

pub use entry::Source;
pub use error::{BlobProblem, PoolError};
pub use handlers::register;
pub use journal::JournalError;
pub use native::NativeProblem;
pub use options::PoolOptions;
pub use pool::Pool;
