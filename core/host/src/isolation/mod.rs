//! Plugins in their own processes.
//!
//! The node starts its own program as a child with a socket for its standard input, the child maps the library, and
//! calls, bus requests, events and log lines travel as frames ([`wire`]). For the router it is another
//! [`PluginInstance`](crate::instance::PluginInstance).
//!
//! Invariants: nothing that a child sends can harm the node: lengths, numbers and amounts are bounded and checked, JSON
//! is validated, capabilities are enforced here. Every caller waiting for a child that ends receives one error that
//! names the plugin and the reason. A library is never mapped in the node.

mod child;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod instance;
mod link;
mod manifest;
mod options;
mod outgoing;
mod process;
mod wire;

pub use child::run_plugin_child;
pub(crate) use instance::open;
pub use options::{Isolation, IsolationOptions};
pub(crate) use process::{Lived, Lives, live};

/// Number of the subscription that stands for the plugin's background work.
const BACKGROUND: u32 = u32::MAX;

/// Maximum number of items of a subscription, or of events, sent before the receiver grants more credit.
const WINDOW: usize = 16;
