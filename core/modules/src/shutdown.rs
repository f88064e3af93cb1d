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
    /// the plugins, then the module actors that can be stopped. Libraries stay mapped.
    ///
    /// The waits for the operation and for the calls together take at most `grace`. A plugin whose calls have not ended by
    /// then gets a moment for their cancellation. Each actor takes the time that its own stop takes.
    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        let deadline = Instant::now() + grace;
        self.modules.lock().is_shutting_down = true;
        // An operation in progress can add no plugin any more; it may still be stopping one.
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

#[cfg(test)]
mod tests {
    use std::{env, time::SystemTime};

    use tempfile::TempDir;
    use tenon_api::messages::{ModuleChange, ModuleState};
    use tenon_bus::Bus;
    use tenon_host::NoCallbacks;

    use super::*;
    use crate::{ModuleError, ModuleOptions, PluginPlan, candidates::Candidate, plugin_module::State};

    /// A register with a disabled plugin.
    fn with_hello() -> (Arc<ModuleRegister>, PluginPlan, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let mut options = ModuleOptions::new(folder.path().join("cache"), Duration::from_secs(2), 16);
        options.vouches_for_all = true;
        let register = ModuleRegister::new(Bus::new(), options);
        // A dev-dependency, whose library cargo puts next to the test program.
        let library = env::current_exe().unwrap().with_file_name("libtenon_example_hello.so");
        let plan = PluginPlan { is_enabled: false, ..PluginPlan::new("hello", library) };
        register.start(std::slice::from_ref(&plan)).unwrap();
        (register, plan, folder)
    }

    fn opened(register: &ModuleRegister, plan: &PluginPlan) -> Candidate {
        let library = register.check_and_copy(plan, true, &NoCallbacks).unwrap();
        let checked = register.check_candidate(library, plan, false).unwrap();
        register.open_checked(checked, plan, Duration::MAX).unwrap()
    }

    /// A stop of the node, which has begun.
    async fn stopping(register: &Arc<ModuleRegister>, grace: Duration) -> tokio::task::JoinHandle<ShutdownReport> {
        let of_task = Arc::clone(register);
        let stop = tokio::spawn(async move { of_task.shutdown(grace).await });
        while !register.modules.lock().is_shutting_down {
            tokio::task::yield_now().await;
        }
        stop
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_waits_for_the_operation_in_progress() {
        let (register, _, _folder) = with_hello();
        let operation = register.operation.lock().await;

        let stop = stopping(&register, Duration::from_secs(10)).await;
        tokio::time::sleep(Duration::from_secs(9)).await;
        let has_modules = register.info("hello").is_ok();
        let is_waiting = !stop.is_finished();
        drop(operation);
        stop.await.unwrap();

        assert!(is_waiting && has_modules, "the operation still needs them");
        assert!(register.info("hello").is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_waits_for_an_operation_no_longer_than_its_grace() {
        let (register, _, _folder) = with_hello();
        let _operation = register.operation.lock().await;
        let begun = Instant::now();

        register.shutdown(Duration::from_secs(10)).await;

        assert!((10..12).contains(&begun.elapsed().as_secs()));
    }

    #[tokio::test]
    async fn an_operation_that_outlives_the_stop_adds_no_plugin() {
        let (register, plan, _folder) = with_hello();
        let operation = register.operation.lock().await;
        let (not_begun, late) = (opened(&register, &plan), opened(&register, &plan));
        let (build, running) = register.begin(&plan, late, &[], Duration::MAX).unwrap();
        let left = Arc::downgrade(&running);

        register.shutdown(Duration::ZERO).await;
        let refused =
            [register.enable(&plan, not_begun, Duration::MAX), register.put(&plan, build, State::Enabled(running))];

        assert!(refused.iter().all(|refused| matches!(refused, Err(ModuleError::ShuttingDown))), "{refused:?}");
        assert!(left.upgrade().is_none(), "it was stopped");
        assert!(register.router().namespaces().is_empty() && register.list().is_empty());
        drop(operation);
    }

    #[tokio::test]
    async fn settings_and_ends_of_time_change_nothing_while_the_node_stops() {
        let (register, plan, _folder) = with_hello();
        register.change("hello", ModuleChange::EnableFor { seconds: 60 }, true).await.unwrap();
        let operation = register.operation.lock().await;
        let settings = PluginPlan { is_enabled: true, ..plan };
        let of_task = Arc::clone(&register);
        let reload = tokio::spawn(async move { of_task.apply(vec![settings], None).await });
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        register.set_end("hello", Some(now - 1));
        let ends = tokio::spawn(Arc::clone(&register).end_on_time());
        // Both wait for the lock then.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        register.modules.lock().is_shutting_down = true;

        drop(operation);
        let applied = reload.await.unwrap();
        // The lock is fair: the end of the time has had it before.
        drop(register.operation.lock().await);

        assert!(
            matches!(applied[..], [crate::AppliedPlan { outcome: Err(ModuleError::ShuttingDown), .. }]),
            "{applied:?}"
        );
        assert_eq!(register.info("hello").unwrap().state, ModuleState::Enabled);
        assert_eq!(register.end_of("hello"), Some(now - 1), "it is over at the next start too");
        ends.abort();
    }
}
