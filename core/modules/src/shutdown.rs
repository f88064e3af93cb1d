//! Stops all modules when the node stops.

use std::{sync::Arc, time::Duration};

use tenon_host::RouteTable;
use tokio::time::{Instant, timeout_at};

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
    /// Waits for the operation in progress, removes all methods, closes subscriptions, waits for running calls, and stops
    /// the plugins, then the module actors that can be stopped. All waits together take at most `grace`. Libraries stay mapped.
    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        let deadline = Instant::now() + grace;
        self.modules.lock().is_shutting_down = true;
        // An operation in progress may be starting a plugin, which has to be stopped too.
        let _operation = timeout_at(deadline, self.operation.lock()).await;
        let running: Vec<_> = {
            let mut modules = self.modules.lock();
            let running = modules.running().map(Arc::clone).collect();
            modules.by_name.clear();
            running
        };
        self.router.replace(RouteTable::default());
        for plugin in &running {
            plugin.close(&unavailable(&plugin.manifest.namespace));
        }
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
