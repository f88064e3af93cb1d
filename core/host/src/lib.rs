//! Loads namespace plugins from shared libraries, and routes calls and subscriptions to them.
//!
//! It owns
//!
//! - the checked copies of libraries ([`LibraryCache`]), and the boundary behind which their code runs
//!   ([`LocalPlugin`]);
//! - the table from method names to plugins ([`Router`]);
//! - started plugins with their calls and subscriptions in flight ([`RunningPlugin`]);
//! - the services that plugins may use, each checked against the plugin's grants: bus, events, timers, log, clock, a
//!   storage space of their own.
//!
//! `core/modules` decides which plugins there are.
//!
//! Invariants:
//!
//! - A call into a plugin runs on the caller's own task, and dropping it cancels it.
//! - A plugin is stopped only after its last call and stream have ended.
//! - A library is loaded from a path that contains the hash of its content, and that file is never written again.
//! - No result is re-serialised.
//! - The crate knows no namespace, no transport and no process but this one. Only `boundary` contains `unsafe`.

#![deny(unsafe_code)]

mod alias;
#[allow(unsafe_code, reason = "the price of the plugin boundary")]
mod boundary;
mod caller;
mod calls;
mod elf;
mod error;
mod exposure;
mod faults;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod json_bytes;
mod json_calls;
mod library_cache;
mod library_file;
mod log_limiter;
mod long_polls;
mod plugin_interface;
mod plugin_manifest;
mod plugin_start;
mod raw_call;
mod router;
mod running;
mod space;
mod stream;
mod subscriptions;
mod trust;

pub use alias::NamespaceAlias;
pub use boundary::{Backend, BusBackend, LocalCall, LocalPlugin, LocalStream, run_load_cycle};
pub use caller::Caller;
pub use calls::CallCounts;
pub use error::HostError;
pub use exposure::Exposure;
pub use faults::{NOT_JSON, PROCESS_ENDED};
pub use gate::Gate;
pub use json_bytes::JsonBytes;
pub use json_calls::{MAX_METHOD, MAX_PARAMS};
pub use library_cache::{CheckedLibrary, LibraryCache};
pub use library_file::{
    NoCallbacks, Ownership, PluginFolder, Steps, check_owner, find_library, libraries_in, library_name,
};
pub use log_limiter::{LogLimiter, MAX_LINE};
pub use long_polls::until_woken;
pub use plugin_interface::{PluginCall, PluginInstance, PluginItems, client_of, context_within, nanos_left};
pub use plugin_manifest::{Cost, Manifest, Method, NamespaceRequirement};
pub use plugin_start::{OpenedPlugin, PluginStart};
pub use raw_call::RawCall;
pub use router::{RouteTable, Router, WeakRouter};
pub use running::{Drained, LAST_REFERENCE_TIMEOUT, RunningPlugin};
pub use space::Space;
pub use stream::{HandOver, PluginStream, Slot};
pub use tenon_api::messages::Trust;
pub use trust::{BUILT_IN_LIST, BuiltIns, VouchedBuilds};
