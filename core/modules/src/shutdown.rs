//! Stops all modules when the node stops.

use std::{sync::Arc, time::Duration};

use tenon_host::RouteTable;
use tokio::time::Instant;

use crate::{ModuleRegister, reports::unavailable};

/// Result of [`ModuleRegister::shutdown`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Plugins that were stopped.
    pub stopped: Vec<String>,
    /// Plugins with calls that did not end even when cancelled, and the number of these calls. Such a plugin is stopped
    /// when its last call ends.
    pub abandoned: Vec<(String, usize)>,
}

impl ModuleRegister {
    /// Removes all methods, closes subscriptions, waits at most `grace` for running calls, and stops the plugins, then
    /// the module actors that can be stopped. Libraries stay mapped.
    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        let running: Vec<_> = {
            let mut modules = self.modules.lock();
            modules.is_shutting_down = true;
            let running = modules.running().map(Arc::clone).collect();
            modules.by_name.clear();
            running
        };
        self.router.replace(RouteTable::default());
        for plugin in &running {
            plugin.close(&unavailable(&plugin.manifest.namespace));
        }
        let deadline = Instant::now() + grace;
        let mut report = ShutdownReport::default();
        for plugin in running {
            let name = plugin.name.clone();
            let drained = plugin.drain(deadline, "the node is shutting down").await;
            let is_stopped = plugin.stop(deadline.max(Instant::now() + Duration::from_millis(10))).await;
            if is_stopped {
                report.stopped.push(name);
            } else {
                tracing::warn!(
                    plugin = name,
                    calls = drained.abandoned,
                    "plugin still has calls after the grace period"
                );
                report.abandoned.push((name, usize::try_from(drained.abandoned.max(1)).unwrap_or(usize::MAX)));
            }
        }
        self.stop_actors().await;
        report
    }
}
