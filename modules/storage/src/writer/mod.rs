//! The right to write the chain: a store gives it out once at a time, as [`DirectWriter`].
//!
//! A running node gives it to the actor of [`spawn_writer`], and writes through [`StorageWriter`]. Commands that work on
//! a database without a node, and tests, write directly. The steps of an opening (`Store::initialise`,
//! `Store::write_rules`) and `Store::thin`, which runs without a node, need no such right; a lock excludes them from
//! writes.

mod actor;
mod direct;

pub use actor::{ACTOR, StorageWriter, spawn_writer};
pub use direct::DirectWriter;

#[cfg(test)]
mod tests;
