//! Tests of the crate from outside, in one program, because linking one is faster.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, missing_docs, reason = "a failure fails the test")]

mod calls;
mod reexecution;
mod scripts;
mod simulations;
mod traces;
