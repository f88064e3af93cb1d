//! Tests of calls, simulations and replays on native chains, in one program, because linking one is faster.

#![allow(clippy::panic, clippy::unwrap_used, missing_docs, reason = "a failure fails the test")]

mod exchange_prices;
mod reexecution;
mod simulations;
