//! Removes permissions from a process: from a child of the node before it runs code that is not trusted (a plugin's
//! library, or a tracer's script), and from the signing service before it listens to clients.
//!
//! It owns the list of permitted system calls and files, and the limits of memory and descriptors. Only the calling
//! program knows what it runs.
//!
//! Invariants: nothing here can be undone by the process; the crate must never know what runs in the process. `system`
//! contains `unsafe`.

#![deny(unsafe_code)]

mod closing;
mod service;
#[allow(unsafe_code, reason = "a process drops permissions with direct system calls")]
mod system;

pub use closing::{MissingProtection, Stage, close_files, close_system_calls};
pub use service::{ServiceRights, confine};
#[cfg(debug_assertions)]
pub use system::reaches_kernel;
pub use system::{leave, limit_descriptors, limit_memory, processor_time, take_inherited_socket};
