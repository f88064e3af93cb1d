//! Applies changes of the settings.

use std::sync::Arc;

use tenon_api::messages::{ModuleChange, ModuleOperation, ModuleReport, ModuleState};
use tokio::time::Instant;

use crate::{ModuleError, ModuleRegister, PluginPlan, plugin_module::State};

/// Result of applying one module's settings.
#[derive(Debug)]
pub struct AppliedPlan {
    /// The module; empty if the settings of none were applied.
    pub name: String,
    /// The report of the operation, or why it failed.
    pub outcome: Result<ModuleReport, ModuleError>,
}

impl ModuleRegister {
    /// Applies changes since the settings were last read: new plugins are loaded, removed ones unloaded, enabled and
    /// disabled ones change, and those with other settings or libraries are replaced. An operator's run-time choice
    /// stays as long as the settings say the same as before. Does not wait for running calls of the module that serves
    /// the namespace `asked_by`.
    pub async fn apply(self: &Arc<Self>, plans: Vec<PluginPlan>, asked_by: Option<&str>) -> Vec<AppliedPlan> {
        let (host, asked_by) = (Arc::clone(self), asked_by.map(str::to_owned));
        let task = tokio::spawn(async move {
            let _operation = host.operation.lock().await;
            host.apply_exclusively(plans, asked_by.as_deref()).await
        });
        task.await.unwrap_or_else(|_| vec![AppliedPlan { name: String::new(), outcome: Err(ModuleError::Crashed) }])
    }

    async fn apply_exclusively(self: &Arc<Self>, plans: Vec<PluginPlan>, asked_by: Option<&str>) -> Vec<AppliedPlan> {
        if let Err(error) = self.modules.lock().check_not_shutting_down() {
            return vec![AppliedPlan { name: String::new(), outcome: Err(error) }];
        }
        let new = plans.into_iter().map(|plan| (plan.name.clone(), plan)).collect();
        let old = std::mem::replace(&mut *self.configured.lock(), new);
        let new = self.configured.lock().clone();
        let mut outcomes = Vec::new();
        for name in old.keys().filter(|name| !new.contains_key(*name)) {
            if self.modules.lock().by_name.contains_key(name) {
                let waits_for_drain = !self.serves(name, asked_by);
                let outcome = self.change_exclusively(name, ModuleChange::Unload, waits_for_drain).await;
                outcomes.push(AppliedPlan { name: name.clone(), outcome });
            }
        }
        for (name, plan) in new.iter().filter(|(name, plan)| old.get(*name) != Some(plan)) {
            let waits_for_drain = !self.serves(name, asked_by);
            let outcome = self.apply_plan(name, plan, waits_for_drain).await;
            // If only the choice could not be stored, the operation is still done.
            if outcome.as_ref().is_err_and(|error| !matches!(error, ModuleError::ChoicesNotStored { .. })) {
                // Not recorded as applied, so that the next reload tries it again: the library may have been repaired.
                let mut configured = self.configured.lock();
                match old.get(name) {
                    Some(before) => configured.insert(name.clone(), before.clone()),
                    None => configured.remove(name),
                };
            }
            outcomes.push(AppliedPlan { name: name.clone(), outcome });
        }
        outcomes
    }

    /// Whether the module runs and has this namespace.
    fn serves(&self, name: &str, namespace: Option<&str>) -> bool {
        let modules = self.modules.lock();
        let running = modules.by_name.get(name).and_then(|module| module.running());
        running.is_some_and(|running| Some(running.manifest.namespace.as_str()) == namespace)
    }

    async fn apply_plan(
        self: &Arc<Self>,
        name: &str,
        plan: &PluginPlan,
        waits_for_drain: bool,
    ) -> Result<ModuleReport, ModuleError> {
        let started = Instant::now();
        self.modules.lock().check_not_shutting_down()?;
        if self.actor(name).is_some() {
            return Err(ModuleError::name_of_actor(name));
        }
        let is_enabled = self.modules.lock().by_name.get(name).map(|module| module.running().is_some());
        let report = match (is_enabled, plan.is_enabled) {
            (Some(true), true) => {
                let mut plan = plan.clone();
                let candidate = self.open_in_background(&mut plan, true, false).await?;
                self.switch(name, plan, candidate, waits_for_drain, started).await
            }
            (Some(true), false) => {
                let report = self.disable(name, waits_for_drain, started).await;
                self.modules.lock().get_mut(name)?.plan = plan.clone();
                report
            }
            (_, true) => {
                let mut plan = plan.clone();
                let candidate = self.open_in_background(&mut plan, true, false).await?;
                self.enable_candidate(plan, candidate, ModuleOperation::Enable, started).await
            }
            (Some(false), false) => {
                let mut modules = self.modules.lock();
                let module = modules.get_mut(name)?;
                module.plan = plan.clone();
                module.state = State::Disabled;
                Ok(self.report(name, ModuleOperation::Disable, ModuleState::Disabled, started))
            }
            (None, false) => Ok(self.report(name, ModuleOperation::Load, ModuleState::Unloaded, started)),
        }?;
        if let Some(module) = self.modules.lock().by_name.get_mut(name) {
            module.is_path_configured = true;
        }
        // The settings override the choice.
        self.set_end(name, None);
        self.finish_operation(report).await
    }
}
