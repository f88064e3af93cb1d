//! Plugins in processes of their own.
//!
//! The node starts its own program as a child with a socket for its standard input, the child maps the library, and
//! calls, questions to the bus, events and log lines travel as frames ([`wire`]). To the router it is one more
//! [`PluginInstance`](crate::instance::PluginInstance).
//!
//! What must always hold: nothing that a child sends can harm the node: lengths, numbers and amounts are bounded and
//! checked, JSON is looked at, capabilities are enforced here. Whoever waits for a child that ends gets one error that
//! names the plugin and the reason. A library is never mapped in the node.

mod child;
pub(crate) mod fuzzing;
mod instance;
mod link;
mod manifest;
mod options;
mod outgoing;
mod process;
mod sandbox;
#[allow(unsafe_code, reason = "what a child gives up is asked of the system directly")]
mod system;
mod wire;

pub use child::run_plugin_child;
pub(crate) use instance::open;
pub use options::{Isolation, IsolationOptions};
pub(crate) use process::{Lived, Lives, live};

/// The number of the subscription that stands for the plugin's own work.
const BACKGROUND: u32 = u32::MAX;

/// Items of a subscription, and events, that may be under way before the receiver has asked for more.
const WINDOW: usize = 16;
