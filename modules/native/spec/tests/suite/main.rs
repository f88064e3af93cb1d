//! Tests of the crate from outside, in one program, because linking one is faster.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod base_fee;
mod networks;
mod reference_genesis_files;
mod upgrades;
