//! The start of a plugin, for a library in this process as well as in a child.

use std::time::Duration;

use tenon_api::Capability;
use tenon_bus::{Bus, MemoryBudget};
use tenon_sdk::Failure;

use crate::{Manifest, plugin_interface::PluginInstance, router::WeakRouter, space::Space};

/// A library that passed the handshake and has not been started.
pub trait OpenedPlugin: Send {
    /// Its manifest.
    fn manifest(&self) -> &Manifest;

    /// Starts it. May block as long as the plugin's own start does.
    ///
    /// # Errors
    /// The plugin's reason; everything is cleaned up then.
    fn start(self: Box<Self>, start: PluginStart<'_>) -> Result<Box<dyn PluginInstance>, Failure>;
}

/// Arguments of a plugin's start.
pub struct PluginStart<'a> {
    /// Its name in the host, which may differ from the one in its manifest. Budgets and log lines use it.
    pub name: &'a str,
    /// Time limit, if less than the plugin's own.
    pub timeout: Duration,
    /// Its granted capabilities.
    pub granted: Vec<Capability>,
    /// The bus.
    pub bus: Bus,
    /// Finds the methods that it calls.
    pub router: WeakRouter,
    /// Its own storage.
    pub space: Space,
    /// Budget for memory that it and its callers hold.
    pub memory: MemoryBudget,
    /// Maximum log lines per second, if other than the process' limit.
    pub log_lines: Option<u32>,
    /// JSON text of its own settings.
    pub settings: &'a str,
    /// Result of [`PluginInstance::export_state`] of the version before, or empty.
    pub handover: &'a [u8],
}
