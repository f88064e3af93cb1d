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
        let total_micros = micros(started.elapsed());
        ModuleReport { new, total_micros, ..ModuleReport::new(name, operation, state) }
    }
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Notice for subscribers when their namespace is removed.
pub(crate) fn unavailable(namespace: &str) -> String {
    format!("namespace {namespace} is not available any more")
}
