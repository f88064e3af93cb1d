//! The front-ends over real sockets, with a service made for the test behind them.

// The helpers stand outside of `#[test]` functions, where clippy.toml allows this anyway.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod http;
mod raw_http;
mod recorded;
mod service;
mod socket;
mod switching;
mod websocket;
