//! Tests of the crate from outside, in one program, because linking one is faster.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod codec_properties;
mod genesis_files;
mod native_chain;
mod pooled_blobs;
mod recorded_ethereum_chain;
mod schedule_numbers;
mod senders;
mod support;
