//! Reports of operations.

use std::time::Duration;

use tenon_api::messages::{ModuleOperation, ModuleReport, ModuleState};
use tokio::time::Instant;

use crate::{ModuleRegister, plugin_module::Build};

impl ModuleRegister {
    /// Report of an operation that found nothing running.
    pub(crate) fn report(
        &self,
        name: &str,
        operation: ModuleOperation,
        state: ModuleState,
        started: Instant,
    ) -> ModuleReport {
        let new = match state {
            ModuleState::Loaded | ModuleState::Enabled => {
                self.modules.lock().by_name.get(name).and_then(|module| module.build.as_ref().map(Build::describe))
            }
            _ => None,
        };
        ModuleReport {
            module: name.to_owned(),
            operation,
            state,
            reason: None,
            old: None,
            new,
            running_calls: 0,
            cancelled_calls: 0,
            abandoned_calls: 0,
            kept_subscriptions: 0,
            closed_subscriptions: 0,
            drain_micros: 0,
            total_micros: micros(started.elapsed()),
            is_draining: false,
            dependants: Vec::new(),
        }
    }
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Notice for subscribers when their namespace is removed.
pub(crate) fn unavailable(namespace: &str) -> String {
    format!("namespace {namespace} is not available any more")
}
