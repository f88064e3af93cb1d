//! Tests of the crate from outside, in one program, because linking one is faster.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, missing_docs, reason = "a failure fails the test")]

mod import;
mod own_failures;
mod produce;
mod release_profile;
mod stopped_writer;
