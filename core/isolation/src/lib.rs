//! Runs plugins in processes of their own.
//!
//! It owns the wire between the node and such a process, the process' own side ([`run_plugin_child`]), its sandbox and
//! limits ([`IsolationOptions`], [`PluginLimits`]), and the supervision that restarts it. The node starts its own
//! program as a child with a socket for its standard input, the child maps the library, and calls, bus requests, events
//! and log lines travel as frames. For the router it is another [`PluginInstance`](tenon_host::PluginInstance).
//!
//! Invariants:
//!
//! - Nothing that a child sends can harm the node: lengths, numbers and amounts are bounded and checked, JSON is
//!   validated, capabilities are enforced here.
//! - Every caller waiting for a child that ends receives one error that names the plugin and the reason.
//! - A library is never mapped in the node.
//! - The crate does not know which plugins there are.

#![forbid(unsafe_code)]

mod child;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod isolation_options;
mod link;
mod manifest_frame;
mod outgoing;
mod plugin_limits;
mod process;
mod process_plugin;
mod wire;

pub use child::run_plugin_child;
pub use error::IsolationError;
pub use isolation_options::IsolationOptions;
pub use plugin_limits::PluginLimits;
pub use process::{LoadCycleUsage, LoadCycles, run_load_cycles};
pub use process_plugin::open;
pub use tenon_api::messages::Isolation;

/// Number of the subscription that stands for the plugin's background work.
const BACKGROUND: u32 = u32::MAX;

/// Maximum number of items of a subscription, or of events, sent before the receiver grants more credit.
const WINDOW: usize = 16;
