//! The front-ends over real sockets, with a service made for the tests.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure fails the test")]

mod batches;
mod connections;
mod http;
mod limits;
mod memory;
mod origins;
mod proxies;
mod raw_http;
mod recorded;
mod service;
mod socket;
mod switching;
mod websocket;
