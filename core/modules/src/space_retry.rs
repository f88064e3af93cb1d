//! Starts plugins that did not start with the node because the disk was full: their libraries are copied first.
//!
//! Without this, an operator could not start them: `tenon module` needs the `admin` plugin, which may be one of them.

use std::{fs, path::Path, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{ModuleError, ModuleRegister};

/// Interval between attempts.
const CHECK_PERIOD: Duration = Duration::from_secs(10);

/// Free space, in bytes, that copies leave to the database, which needs as much to continue after a full disk.
const SPACE_FOR_OTHERS: u64 = 64 << 20;

impl ModuleRegister {
    /// Starts the plugins that lacked space when the node started, as soon as there is space. Returns when none is left.
    pub async fn start_when_there_is_space(self: Arc<Self>) {
        loop {
            let waiting = self.lacking_space();
            if waiting.is_empty() {
                return;
            }
            tokio::time::sleep(CHECK_PERIOD).await;
            for name in waiting {
                let register = Arc::clone(&self);
                // On its own task, like every operation, because the caller's future may be dropped.
                let task = tokio::spawn(async move {
                    let _operation = register.operation.lock().await;
                    register.start_if_there_is_space(&name).await;
                });
                // An error is a panic, which has been logged.
                let _ = task.await;
            }
        }
    }

    fn lacking_space(&self) -> Vec<String> {
        let modules = self.modules.lock();
        modules.by_name.iter().filter(|(_, module)| module.lacks_space()).map(|(name, _)| name.clone()).collect()
    }

    async fn start_if_there_is_space(self: &Arc<Self>, name: &str) {
        // The operator may have changed it in the meantime.
        let library = {
            let modules = self.modules.lock();
            let module = modules.by_name.get(name).filter(|module| module.lacks_space() && !modules.is_shutting_down);
            module.map(|module| module.plan.path.clone())
        };
        if !library.is_some_and(|library| self.has_space_for(&library)) {
            return;
        }
        let started = Instant::now();
        let outcome = match self.enable_module(name, started).await {
            Ok(report) => self.finish_operation(report).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(_) => tracing::info!(module = name, "started, since there is space on the disk now"),
            Err(error @ ModuleError::ChoicesNotStored { .. }) => tracing::warn!(module = name, %error, "started"),
            Err(error) if self.modules.lock().is_for_lack_of_space(name, &error) => {
                tracing::debug!(module = name, %error, "not started yet");
            }
            // The failure has been noted.
            Err(error @ ModuleError::NotStarted { .. }) => tracing::error!(module = name, %error, "module not started"),
            Err(error) => {
                tracing::error!(module = name, %error, "module not started");
                self.note_failure(name, error.to_string(), started);
            }
        }
    }

    /// Whether a copy of the library leaves enough space. If the system does not say, it is tried.
    fn has_space_for(&self, library: &Path) -> bool {
        let Ok(disk) = rustix::fs::statvfs(&self.options.cache_folder) else { return true };
        let length = fs::metadata(library).map_or(0, |metadata| metadata.len());
        disk.f_bavail.saturating_mul(disk.f_frsize) >= length.saturating_add(SPACE_FOR_OTHERS)
    }
}
