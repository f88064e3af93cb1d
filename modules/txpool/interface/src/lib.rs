//! The interface that a chain family implements for the transaction pool: which transactions it accepts, and at what
//! cost.
//!
//! It owns the trait [`PoolPolicy`] and its inputs and outputs: the [`Candidate`], its [`Source`], the view of the
//! chain ([`PoolView`]) with the recovery of [`Senders`], the [`CostAndPriority`], and the pool's errors
//! ([`PoolError`]). The pool is `tenon-txpool`, with the policy of the Ethereum profile; that of native chains is
//! `modules/native/pool`.
//!
//! Invariants:
//!
//! - nothing here holds a waiting transaction or knows the pool;
//! - a sender is recovered once while it is cached;
//! - no lock is held during a recovery.

#![forbid(unsafe_code)]

mod error;
mod policy;
mod senders;
mod source;

pub use error::PoolError;
pub use policy::{Candidate, CostAndPriority, CostOf, PoolPolicy, PoolView};
pub use senders::Senders;
pub use source::Source;
