//! The host's side of the C boundary: opening libraries, reading their tables, calling their functions, and
//! the services that they call. All of the host's `unsafe` is here.
//!
//! Invariants: a library stays mapped as long as anything that came out of it lives (in a node: for ever, which costs
//! under 1 MB and removes a class of crashes); an instance is stopped once, after its last call and stream.

mod cycle;
mod instance;
mod library;
mod services;

pub(crate) use cycle::live_once;
pub(crate) use instance::{LocalCall, LocalPlugin, LocalStream};
pub(crate) use library::Library;
pub(crate) use services::{Backend, BusBackend};
