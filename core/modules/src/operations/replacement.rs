//! Replaces a module's build.

use std::{sync::Arc, time::Duration};

use tenon_api::messages::{ModuleBuild, ModuleOperation, ModuleReport, ModuleState};
use tenon_host::{HandOver, RunningPlugin};
use tokio::time::{Instant, timeout};

use super::{Ended, LoadArguments, STOP_TIMEOUT, with_ended};
use crate::{
    ModuleError, ModuleRegister, PluginPlan,
    candidates::Candidate,
    low_priority::blocking,
    plugin_module::{Build, State},
};

/// Time that new calls wait for the running cheap ones, before state is handed over. Slow calls are not waited for:
/// they read the chain and change nothing in the plugin.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(1);
/// Time limit for a new instance to accept a subscription again.
const ACCEPT_TIMEOUT: Duration = Duration::from_millis(500);

impl ModuleRegister {
    pub(super) async fn replace_module(
        self: &Arc<Self>,
        name: &str,
        given: LoadArguments,
        waits_for_drain: bool,
        started: Instant,
    ) -> Result<ModuleReport, ModuleError> {
        let (mut plan, mut is_path_configured, is_enabled, old) = {
            let modules = self.modules.lock();
            let module = modules.get(name)?;
            let old = module.build.as_ref().map(Build::describe);
            (module.plan.clone(), module.is_path_configured, module.running().is_some(), old)
        };
        let (is_same_path, is_vouched_for) = given.put_into(&mut plan);
        is_path_configured &= is_same_path;
        let candidate = self.open_in_background(&mut plan, is_path_configured, is_vouched_for).await?;
        if is_enabled {
            return self.switch(name, plan, candidate, waits_for_drain, started).await;
        }
        self.modules.lock().check_namespace(name, &candidate.build)?;
        let state = match self.modules.lock().get(name)?.state {
            State::Disabled => State::Disabled,
            _ => State::Loaded,
        };
        self.put(&plan, candidate.build, state)?;
        let state = self.modules.lock().get(name)?.state();
        Ok(ModuleReport { old, ..self.report(name, ModuleOperation::Replace, state, started) })
    }

    /// Replaces an enabled module by a candidate: no call is refused or lost, and subscriptions continue if the new
    /// build accepts them.
    pub(super) async fn switch(
        self: &Arc<Self>,
        name: &str,
        plan: PluginPlan,
        candidate: Candidate,
        waits_for_drain: bool,
        started: Instant,
    ) -> Result<ModuleReport, ModuleError> {
        let (running, old) = self.check_switch(name, &candidate)?;
        let begun = self.begin_next(&running, plan.clone(), candidate).await;
        let (build, next) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                running.gate.release();
                return Err(error);
            }
        };
        if let Err(error) = self.put(&plan, build, State::Enabled(Arc::clone(&next))) {
            running.gate.release();
            next.stop(Instant::now() + STOP_TIMEOUT).await;
            return Err(error);
        }
        let mut ended = Ended { running_calls: running.gate.calls(), ..Ended::default() };
        // In this order: callers that waited find the new route, and the old gate closed.
        running.gate.close();
        running.gate.release();
        self.hand_over_subscriptions(&running, &next, &mut ended).await;
        let reason = format!("namespace {} was replaced", running.manifest.namespace);
        self.end(running, reason, waits_for_drain, &mut ended).await;
        let report = self.report(name, ModuleOperation::Replace, ModuleState::Enabled, started);
        Ok(with_ended(ModuleReport { old, ..report }, ended))
    }

    fn check_switch(
        &self,
        name: &str,
        candidate: &Candidate,
    ) -> Result<(Arc<RunningPlugin>, Option<ModuleBuild>), ModuleError> {
        let modules = self.modules.lock();
        let module = modules.get(name)?;
        let manifest = &candidate.build.manifest;
        let Some(running) = module.running() else {
            return Err(ModuleError::WrongState {
                name: name.to_owned(),
                problem: "is not enabled any more".to_owned(),
            });
        };
        if running.manifest.namespace != manifest.namespace {
            let (old, new) = (&running.manifest.namespace, &manifest.namespace);
            let problem = format!("serves {old}, but the new library serves {new}; load it under another name");
            return Err(ModuleError::WrongState { name: name.to_owned(), problem });
        }
        modules.check_needs(name, manifest)?;
        modules.check_needed(name, Some(manifest))?;
        Ok((Arc::clone(running), module.build.as_ref().map(Build::describe)))
    }

    /// Starts the new instance with the state of the old one. If there is state, calls wait from its export until the
    /// switch; otherwise their changes in between would be lost.
    async fn begin_next(
        self: &Arc<Self>,
        running: &Arc<RunningPlugin>,
        plan: PluginPlan,
        candidate: Candidate,
    ) -> Result<(Build, Arc<RunningPlugin>), ModuleError> {
        let mut handover = export(running).await;
        if !handover.is_empty() {
            running.gate.hold();
            let _ = timeout(HANDOVER_TIMEOUT, running.gate.without_cheap_calls()).await;
            handover = export(running).await;
        }
        let host = Arc::clone(self);
        blocking(move || host.begin(&plan, candidate, &handover, Duration::MAX)).await
    }

    async fn hand_over_subscriptions(&self, old: &Arc<RunningPlugin>, next: &Arc<RunningPlugin>, ended: &mut Ended) {
        let namespace = &old.manifest.namespace;
        // The old instance needs no positions: it receives no event after a position that the host chooses.
        let is_lasting = old.manifest.has_lasting_subscriptions
            && next.manifest.has_lasting_subscriptions
            && next.manifest.has_item_positions;
        if !is_lasting {
            ended.closed_subscriptions = old.close(&format!("namespace {namespace} was replaced; subscribe again"));
            return;
        }
        let hand_over = Arc::new(HandOver::default());
        let mut kept = Vec::new();
        for slot in old.open_slots() {
            match next.continue_subscription(&slot, &hand_over, Instant::now() + ACCEPT_TIMEOUT).await {
                Ok(()) => kept.push(slot),
                Err(failure) => {
                    let notice = format!("subscription closed: the new version of {namespace} refused it: {failure}");
                    slot.close(tenon_sdk::Failure::server(notice));
                    ended.closed_subscriptions += 1;
                }
            }
        }
        // From here on events reach the new instance only; the old one finishes its pending ones.
        hand_over.end_events(&*old.instance);
        let deadline = Instant::now() + self.options.grace;
        for slot in &kept {
            slot.finish_current(deadline).await;
            next.add_slot(slot);
        }
        ended.kept_subscriptions = kept.len() as u64;
    }
}

/// The state that an instance hands over. If the export fails, the instance is replaced without its state.
async fn export(running: &Arc<RunningPlugin>) -> Vec<u8> {
    let exporting = Arc::clone(running);
    let exported = blocking(move || Ok(exporting.instance.export_state())).await;
    match exported {
        Ok(Ok(state)) => state,
        Ok(Err(failure)) => {
            tracing::warn!(plugin = running.name, %failure, "the old instance could not export its state; none is \
                handed over");
            Vec::new()
        }
        Err(_) => Vec::new(),
    }
}
