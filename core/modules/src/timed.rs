//! Disables modules that are enabled for a limited time when it is over.
//!
//! The end is a wall-clock time, stored with the choices: a node that was down when it passed starts without the
//! module.

use std::{sync::Arc, time::Duration};

use tenon_api::messages::{ModuleChange, ModuleOperation, ModuleReport, ModuleState};
use tokio::time::Instant;

use crate::{ModuleError, ModuleRegister, end_times::now, plugin_module::State};

/// Interval between reads of the wall clock, which can be set; also the delay before a refused end is tried again.
const CHECK_PERIOD: Duration = Duration::from_secs(60);

impl ModuleRegister {
    /// Disables modules when their time is over. Runs until it is dropped.
    pub async fn end_on_time(self: Arc<Self>) {
        loop {
            let next = self.ends.lock().values().min().copied();
            let wait = match next {
                Some(end) if end <= now() => {
                    if self.end_due().await {
                        continue;
                    }
                    CHECK_PERIOD
                }
                Some(end) => Duration::from_secs(end.saturating_sub(now())).min(CHECK_PERIOD),
                None => Duration::MAX,
            };
            let _ = tokio::time::timeout(wait, self.ends_changed.notified()).await;
        }
    }

    /// Disables modules whose time is over. Returns false if one could not be disabled.
    async fn end_due(self: &Arc<Self>) -> bool {
        let due: Vec<String> = {
            let ends = self.ends.lock();
            ends.iter().filter(|(_, end)| **end <= now()).map(|(name, _)| name.clone()).collect()
        };
        let mut all_ended = true;
        for name in due {
            let (host, of_task) = (Arc::clone(self), name.clone());
            // On its own task, like every operation, because the caller's future may be dropped.
            let task = tokio::spawn(async move {
                let _operation = host.operation.lock().await;
                host.end_exclusively(&of_task).await
            });
            match task.await.unwrap_or(Err(ModuleError::Crashed)) {
                Ok(()) => {}
                // It stops with the node, and its end is stored.
                Err(ModuleError::ShuttingDown) => all_ended = false,
                Err(error) => {
                    tracing::warn!(module = name, %error, "the limited time of a module is over, but it could not be \
                        disabled; retrying");
                    all_ended = false;
                }
            }
        }
        all_ended
    }

    async fn end_exclusively(self: &Arc<Self>, name: &str) -> Result<(), ModuleError> {
        self.modules.lock().check_not_shutting_down()?;
        // Its end may have been changed or removed in the meantime.
        if self.end_of(name).is_none_or(|end| end > now()) {
            return Ok(());
        }
        let started = Instant::now();
        let report = if let Some(actor) = self.actor(name) {
            self.change_actor(&actor, &ModuleChange::Disable, started).await?
        } else if self.modules.lock().by_name.get(name).is_some_and(|module| module.running().is_some()) {
            self.disable(name, true, started).await?
        } else {
            self.give_up(name, started)
        };
        self.set_end(name, None);
        tracing::info!(module = name, "disabled a module whose limited time is over");
        match self.finish_operation(report).await {
            // The module is disabled and its end time removed, so there is nothing to retry.
            Err(error @ ModuleError::ChoicesNotStored { .. }) => {
                tracing::warn!(module = name, %error, "disabled a module, but only until the next start");
                Ok(())
            }
            outcome => outcome.map(drop),
        }
    }

    /// Handles a module that failed before its time was over: it must not be started again.
    fn give_up(&self, name: &str, started: Instant) -> ModuleReport {
        if let Some(module) = self.modules.lock().by_name.get_mut(name) {
            module.plan.is_enabled = false;
            module.state = State::Disabled;
        }
        self.report(name, ModuleOperation::Disable, ModuleState::Disabled, started)
    }
}
