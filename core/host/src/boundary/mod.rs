//! The host's side of the C boundary: opening libraries, reading their tables, calling their functions, and
//! the services that they call. All of the host's `unsafe` is here.
//!
//! Invariants:
//!
//! - A library stays mapped as long as anything that came out of it lives. In a node that is forever, which costs less
//!   than 1 MB and removes a class of crashes.
//! - An instance is stopped once, after its last call and stream.

mod backend;
mod cycle;
mod in_flight;
mod library;
mod local_plugin;
mod services;

pub use backend::Backend;
pub use cycle::run_load_cycle;
pub use in_flight::{LocalCall, LocalStream};
pub use local_plugin::LocalPlugin;
pub use services::BusBackend;
