//! Loads namespace plugins as shared libraries and routes calls and subscriptions to them.
//!
//! It owns the loaded libraries, the table from method names to plugins ([`Router`]), the counts of calls and
//! subscriptions in flight, and the services that plugins may use (bus, events, timers, log, clock, a storage space of
//! their own), each checked against the plugin's grants.
//!
//! Invariants: a call into a plugin runs on the caller's own task, and dropping it cancels it; a plugin is stopped only
//! after its last call and stream have ended; a library file is loaded from a path that contains the hash of its
//! content and is never written again; no result is re-serialised. It knows no namespace and no transport, and only
//! `boundary` contains `unsafe`.

#![deny(unsafe_code)]

mod actors;
#[allow(unsafe_code, reason = "the price of the plugin boundary")]
mod boundary;
mod caller;
mod calls;
mod choices;
mod conclusion;
mod conformance;
mod elf;
mod ends;
mod error;
mod exposure;
mod faults;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod host;
mod instance;
mod isolation;
mod journal;
mod json_calls;
mod library_cache;
mod library_file;
mod life_cycle;
mod limits;
mod long_polls;
mod low_priority;
mod manifest;
mod module;
mod options;
mod raw_call;
mod router;
mod running;
mod space;
mod start;
mod stream;
mod trust;

pub use actors::{ActorControl, ActorModule, ActorStage, ActorSwitch};
pub use caller::Caller;
pub use calls::CallCounts;
pub use conformance::{Check, CheckReport, LoadFigures, check_plugin};
pub use error::HostError;
pub use exposure::Exposure;
pub use host::{PluginHost, ShutdownReport, register};
pub use isolation::{Isolation, IsolationOptions, run_plugin_child};
pub use library_file::libraries_in;
pub use life_cycle::AppliedPlan;
pub use limits::PluginLimits;
pub use manifest::{Cost, Manifest, Method, Need};
pub use options::{HostOptions, NamespaceAlias, PluginFolder, PluginPlan};
pub use raw_call::RawCall;
pub use router::{JsonBytes, Router};
pub use stream::PluginStream;
pub use trust::{BUILT_IN_LIST, BuiltIns, VouchedBuilds};
