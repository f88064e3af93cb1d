//! Starts plugins that did not start with the node because the disk had no space for copies of their libraries (a library
//! is copied before it is loaded).
//!
//! Without this, an operator could not start them: `tenon module` needs the `admin` plugin, which may be one of them.

use std::{fs, path::Path, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    ModuleError, ModuleRegister,
    plugin_module::{KnownPlugin, NeedsStatus, SpaceLack, State},
};

/// Interval between attempts.
const CHECK_PERIOD: Duration = Duration::from_secs(10);

/// Bytes that must stay free after a copy: the database needs them to resume after a full disk.
const SPACE_FOR_OTHERS: u64 = 64 << 20;

impl ModuleRegister {
    /// Starts the plugins that lacked space when the node started, and the plugins that need them, as soon as there is space.
    /// Returns when none is left.
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
        let started = Instant::now();
        let (library, status) = {
            let modules = self.modules.lock();
            // The operator may have changed it in the meantime.
            let module = modules.by_name.get(name).filter(|module| module.lacks_space() && !modules.is_shutting_down);
            let Some(module) = module else { return };
            // Those of a plugin that was never opened are not known yet.
            let build = module.build.as_ref().filter(|_| !module.own_copy_did_not_fit());
            let status = build.map_or(NeedsStatus::Met, |build| modules.needs_status(name, &build.manifest));
            (module.plan.path.clone(), status)
        };
        match status {
            NeedsStatus::AwaitSpace { .. } => return,
            NeedsStatus::Unmet(error) => return self.give_up_waiting(name, &error, started),
            NeedsStatus::Met => {}
        }
        if !self.has_space_for(&library) {
            return;
        }
        let outcome = match self.enable_module(name, started).await {
            Ok(report) => self.finish_operation(report).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(_) => tracing::info!(module = name, "started, since there is space on the disk now"),
            Err(error @ ModuleError::ChoicesNotStored { .. }) => tracing::warn!(module = name, %error, "started"),
            Err(ModuleError::ShuttingDown) => {}
            Err(error) if error.lacks_space() => {
                tracing::debug!(module = name, %error, "not started yet");
                let is_known = || self.modules.lock().get(name).is_ok_and(KnownPlugin::own_copy_did_not_fit);
                if !is_known() {
                    let is_built_in = self.options.built_ins.has_name(name);
                    self.set_space_lack(name, SpaceLack::of_own_copy(name, &error.to_string(), is_built_in));
                }
            }
            // The failure has been noted.
            Err(error @ ModuleError::NotStarted { .. }) => tracing::error!(module = name, %error, "module not started"),
            Err(ModuleError::Needs { .. }) => self.wait_for_needs(name, started),
            Err(error) => self.give_up_waiting(name, &error, started),
        }
    }

    /// Lets a plugin whose library has been opened wait for others that lack space, if they may serve what it needs.
    fn wait_for_needs(&self, name: &str, started: Instant) {
        let status = {
            let modules = self.modules.lock();
            let build = modules.by_name.get(name).and_then(|module| module.build.as_ref());
            build.map(|build| modules.needs_status(name, &build.manifest))
        };
        match status {
            Some(NeedsStatus::AwaitSpace { error, modules }) => {
                self.set_space_lack(name, SpaceLack::of_needs(name, &error.to_string(), &modules));
            }
            Some(NeedsStatus::Unmet(error)) => self.give_up_waiting(name, &error, started),
            // They have been met in the meantime: the next round starts it.
            Some(NeedsStatus::Met) | None => {}
        }
    }

    fn set_space_lack(&self, name: &str, lack: SpaceLack) {
        if let Some(module) = self.modules.lock().by_name.get_mut(name) {
            module.state = State::LacksSpace(lack);
        }
    }

    fn give_up_waiting(&self, name: &str, error: &ModuleError, started: Instant) {
        tracing::error!(module = name, %error, "module not started");
        self.note_failure(name, error.to_string(), started);
    }

    /// Whether a copy of the library leaves enough space. If the free space is unknown, the start is tried.
    fn has_space_for(&self, library: &Path) -> bool {
        let Ok(disk) = rustix::fs::statvfs(&self.options.cache_folder) else { return true };
        let length = fs::metadata(library).map_or(0, |metadata| metadata.len());
        disk.f_bavail.saturating_mul(disk.f_frsize) >= length.saturating_add(SPACE_FOR_OTHERS)
    }
}
