//! The host's side of the C boundary: opening libraries, reading their tables, calling their functions, and
//! the services that they call. All of the host's `unsafe` is here.
//!
//! Invariants: a library stays mapped as long as anything that came out of it lives (in a node: forever, which costs
//! less than 1 MB and removes a class of crashes); an instance is stopped once, after its last call and stream.

mod cycle;
mod library;
mod local_plugin;
mod services;

pub use cycle::run_load_cycle;
pub use library::Library;
pub use local_plugin::{LocalCall, LocalPlugin, LocalStream};
pub use services::{Backend, BusBackend};
