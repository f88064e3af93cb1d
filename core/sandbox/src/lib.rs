//! Removes permissions from a process: from a child of the node before it runs code that is not trusted (a plugin's
//! library, or a tracer's script), and from the signing service before it listens to clients.
//!
//! It owns the list of permitted system calls and files, and the limits of memory and descriptors. It also has the two
//! calls that the watchdog of a sandboxed child needs ([`processor_time`], [`leave`]), because they are `unsafe`. Only the
//! calling program knows what it runs.
//!
//! Invariants: nothing here can be undone by the process; the crate must never know what runs in the process. Only
//! `system` and `refused_call` contain `unsafe`.

#![deny(unsafe_code)]

mod closing;
#[allow(unsafe_code, reason = "a signal handler reads and writes the registers of the interrupted thread")]
mod refused_call;
mod service;
#[allow(unsafe_code, reason = "a process drops permissions with direct system calls")]
mod system;

pub use closing::{MissingProtection, Stage, close_files, close_system_calls};
pub use service::{ServiceRights, confine};
#[cfg(debug_assertions)]
pub use system::reaches_kernel;
pub use system::{leave, limit_descriptors, limit_memory, processor_time, take_inherited_socket};
