//! Tests of the crate from outside, in one program, because linking one is faster.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failure fails the test")]

mod faults;
mod hub;
mod leaving;
mod opening;
mod properties;
mod sharing;
mod signing;
mod support;
