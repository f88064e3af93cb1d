//! The operations on modules. Each is one transaction: it is done as a whole, or the reason says why nothing changed.
//!
//! One operation runs at a time, on a task of its own: a caller that leaves does not leave half of one behind.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tenon_api::messages::{
    ModuleBuild, ModuleChange, ModuleChanged, ModuleOperation, ModuleReport, ModuleState, ModuleTerms,
};
use tokio::time::{Instant, timeout};

use crate::{
    HostError, PluginHost, PluginPlan,
    host::{Candidate, Judged, unavailable},
    library_file::{find, library_name},
    module::{Build, State},
    patient::blocking,
    router::RouteTable,
    running::{Running, SHARE_WAIT},
};

/// How long new calls wait for the cheap ones that run, before state is handed over. Slow calls are not waited for: they
/// read the chain and change nothing in the plugin.
const HANDOVER_WAIT: Duration = Duration::from_secs(1);
/// How long the last share of an instance may take to go that still has calls.
const STOP_WAIT: Duration = Duration::from_millis(100);
/// How long a new instance may take to accept a subscription again.
const ACCEPT_WAIT: Duration = Duration::from_millis(500);
/// The longest name of a module.
const MAX_NAME: usize = 64;

/// What taking over one module's settings has brought about.
#[derive(Debug)]
pub struct AppliedPlan {
    /// The module.
    pub name: String,
    /// The report of the step that was taken, or why it could not be.
    pub outcome: Result<ModuleReport, HostError>,
}

/// What an operator gives with a module that is loaded or replaced.
struct Given {
    path: Option<String>,
    settings: Option<String>,
    terms: ModuleTerms,
}

impl Given {
    /// Puts it into a plan, whose other parts stay. Says whether the path is the one that the plan had, and whether the
    /// operator vouches for the build.
    fn put_into(self, plan: &mut PluginPlan) -> (bool, bool) {
        let is_same_path = self.path.as_deref().is_none_or(|path| plan.path == Path::new(path));
        if let Some(path) = self.path {
            plan.path = PathBuf::from(path);
        }
        if let Some(settings) = self.settings {
            plan.settings = settings;
        }
        if let Some(grant) = self.terms.grant {
            plan.capabilities = Some(grant);
        }
        (is_same_path, self.terms.is_vouched_for)
    }
}

/// What became of what was in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Ended {
    running_calls: u64,
    cancelled_calls: u64,
    abandoned_calls: u64,
    kept_subscriptions: u64,
    closed_subscriptions: u64,
    drain: Duration,
    is_draining: bool,
}

impl PluginHost {
    /// Takes one step of a module's life.
    ///
    /// # Errors
    /// [`HostError`]: nothing has changed then; only a module that was to be enabled may have become failed.
    pub async fn change(
        self: &Arc<Self>,
        name: &str,
        change: ModuleChange,
        waits_for_drain: bool,
    ) -> Result<ModuleReport, HostError> {
        let (host, name) = (Arc::clone(self), name.to_owned());
        let task = tokio::spawn(async move {
            let _operation = host.operation.lock().await;
            host.change_alone(&name, change, waits_for_drain).await.map_err(|error| host.naming_parts(error))
        });
        task.await.unwrap_or(Err(HostError::Crashed))
    }

    /// Takes over what changed in the settings since they were read last: new plugins are loaded, those that are gone
    /// are unloaded, enabled and disabled ones change, and those with other settings or libraries are replaced. What an
    /// operator chose at run time stays as long as the settings say the same as before. What runs in the module of the
    /// namespace `asked_by` is not waited for.
    pub async fn apply(self: &Arc<Self>, plans: Vec<PluginPlan>, asked_by: Option<&str>) -> Vec<AppliedPlan> {
        let (host, asked_by) = (Arc::clone(self), asked_by.map(str::to_owned));
        let task = tokio::spawn(async move {
            let _operation = host.operation.lock().await;
            host.apply_alone(plans, asked_by.as_deref()).await
        });
        task.await.unwrap_or_else(|_| vec![AppliedPlan { name: String::new(), outcome: Err(HostError::Crashed) }])
    }

    async fn apply_alone(self: &Arc<Self>, plans: Vec<PluginPlan>, asked_by: Option<&str>) -> Vec<AppliedPlan> {
        let new = plans.into_iter().map(|plan| (plan.name.clone(), plan)).collect();
        let old = std::mem::replace(&mut *self.settled(), new);
        let new = self.settled().clone();
        let mut outcomes = Vec::new();
        for name in old.keys().filter(|name| !new.contains_key(*name)) {
            if self.modules().by_name.contains_key(name) {
                let waits_for_drain = !self.serves(name, asked_by);
                let outcome = self.change_alone(name, ModuleChange::Unload, waits_for_drain).await;
                outcomes.push(AppliedPlan { name: name.clone(), outcome });
            }
        }
        for (name, plan) in new.iter().filter(|(name, plan)| old.get(*name) != Some(plan)) {
            let waits_for_drain = !self.serves(name, asked_by);
            let outcome = self.apply_plan(name, plan, waits_for_drain).await;
            if outcome.is_err() {
                // Not taken over, so that the next reading tries it again: the library may have been mended by then.
                let mut settled = self.settled();
                match old.get(name) {
                    Some(before) => settled.insert(name.clone(), before.clone()),
                    None => settled.remove(name),
                };
            }
            outcomes.push(AppliedPlan { name: name.clone(), outcome });
        }
        outcomes
    }

    /// Whether the module runs and has this namespace.
    fn serves(&self, name: &str, namespace: Option<&str>) -> bool {
        let modules = self.modules();
        let running = modules.by_name.get(name).and_then(|module| module.running());
        running.is_some_and(|running| Some(running.manifest.namespace.as_str()) == namespace)
    }

    async fn apply_plan(
        self: &Arc<Self>,
        name: &str,
        plan: &PluginPlan,
        waits_for_drain: bool,
    ) -> Result<ModuleReport, HostError> {
        let started = Instant::now();
        if self.actor(name).is_some() {
            return Err(HostError::name_of_actor(name));
        }
        let is_enabled = self.modules().by_name.get(name).map(|module| module.running().is_some());
        let report = match (is_enabled, plan.is_enabled) {
            (Some(true), true) => {
                let mut plan = plan.clone();
                let candidate = self.open_in_background(&mut plan, true, false).await?;
                self.switch(name, plan, candidate, waits_for_drain, started).await
            }
            (Some(true), false) => {
                let report = self.disable(name, waits_for_drain, started).await;
                self.modules().get_mut(name)?.plan = plan.clone();
                report
            }
            (_, true) => {
                let mut plan = plan.clone();
                let candidate = self.open_in_background(&mut plan, true, false).await?;
                self.enable_candidate(plan, candidate, ModuleOperation::Enable, started).await
            }
            (Some(false), false) => {
                let mut modules = self.modules();
                let module = modules.get_mut(name)?;
                module.plan = plan.clone();
                module.state = State::Disabled;
                Ok(self.report(name, ModuleOperation::Disable, ModuleState::Disabled, started))
            }
            (None, false) => Ok(self.report(name, ModuleOperation::Load, ModuleState::Unloaded, started)),
        }?;
        if let Some(module) = self.modules().by_name.get_mut(name) {
            module.is_path_settled = true;
        }
        // The settings have the last word.
        self.set_end(name, None);
        self.conclude(report).await
    }

    async fn change_alone(
        self: &Arc<Self>,
        name: &str,
        change: ModuleChange,
        waits_for_drain: bool,
    ) -> Result<ModuleReport, HostError> {
        // A library that is loaded without a name gets that of its file.
        let name = match &change {
            ModuleChange::Load { path: Some(path), .. } if name.is_empty() => library_name(Path::new(path))
                .filter(|name| check_name(name).is_ok())
                .ok_or_else(|| HostError::NamelessFile { path: path.into() })?,
            _ => name,
        };
        let name = name.to_owned();
        let name = name.as_str();
        check_name(name)?;
        if self.modules().is_shutting_down {
            return Err(HostError::ShuttingDown);
        }
        let started = Instant::now();
        let (change, end) = match change {
            ModuleChange::EnableFor { seconds } => (ModuleChange::Enable, Some(Self::end_after(seconds)?)),
            change => (change, None),
        };
        if matches!(change, ModuleChange::Enable)
            && let Some(report) = self.change_end(name, end, started)?
        {
            return self.conclude(report).await;
        }
        if let Some(actor) = self.actor(name) {
            if matches!(change, ModuleChange::Load { .. }) {
                return Err(HostError::name_of_actor(name));
            }
            let report = self.change_actor(&actor, &change, started).await?;
            self.set_end(name, end);
            return self.conclude(report).await;
        }
        let keeps_end = matches!(change, ModuleChange::Replace { .. });
        let report = match change {
            ModuleChange::Load { path, settings, is_enabled, terms } => {
                let given = Given { path, settings, terms };
                self.load_module(name, given, is_enabled, started).await?
            }
            ModuleChange::Enable | ModuleChange::EnableFor { .. } => self.enable_module(name, started).await?,
            ModuleChange::Disable => self.disable(name, waits_for_drain, started).await?,
            ModuleChange::Replace { path, settings, terms } => {
                let given = Given { path, settings, terms };
                self.replace_module(name, given, waits_for_drain, started).await?
            }
            ModuleChange::Unload => self.unload(name, waits_for_drain, started).await?,
        };
        if !keeps_end {
            self.set_end(name, end);
        }
        self.conclude(report).await
    }

    async fn load_module(
        self: &Arc<Self>,
        name: &str,
        given: Given,
        is_enabled: bool,
        started: Instant,
    ) -> Result<ModuleReport, HostError> {
        if self.modules().by_name.contains_key(name) {
            let problem = "is loaded already; replace it, or unload it first".to_owned();
            return Err(HostError::WrongState { name: name.to_owned(), problem });
        }
        // What the settings say about the name counts: its capabilities, isolation and bounds also for another library.
        let settled = self.settled().get(name).cloned();
        let is_settled = settled.is_some();
        let mut plan = match (settled, &given.path) {
            (Some(plan), _) => plan,
            (None, Some(path)) => PluginPlan::new(name, path),
            (None, None) => PluginPlan::new(name, self.find(name)?),
        };
        plan.is_enabled = is_enabled;
        let (is_same_path, is_vouched_for) = given.put_into(&mut plan);
        let is_path_settled = is_settled && is_same_path;
        let candidate = self.open_in_background(&mut plan, is_path_settled, is_vouched_for).await?;
        if is_enabled {
            let report = self.enable_candidate(plan, candidate, ModuleOperation::Load, started).await?;
            self.modules().get_mut(name)?.is_path_settled = is_path_settled;
            return Ok(report);
        }
        self.modules().check_namespace(name, &candidate.build)?;
        self.put(&plan, candidate.build, State::Loaded);
        self.modules().get_mut(name)?.is_path_settled = is_path_settled;
        Ok(self.report(name, ModuleOperation::Load, ModuleState::Loaded, started))
    }

    async fn enable_module(self: &Arc<Self>, name: &str, started: Instant) -> Result<ModuleReport, HostError> {
        let (plan, build, is_path_settled) = {
            let modules = self.modules();
            let module = modules.get(name)?;
            if module.running().is_some_and(|running| running.instance.failure().is_none()) {
                return Err(HostError::WrongState { name: name.to_owned(), problem: "is enabled already".to_owned() });
            }
            (module.plan.clone(), module.build.clone(), module.is_path_settled)
        };
        // What was checked when it was loaded is what is started, whatever lies at its path by now. A failed one may
        // have been mended.
        let (is_failed, is_running) = {
            let modules = self.modules();
            let module = modules.get(name)?;
            (module.state() == ModuleState::Failed, module.running().is_some())
        };
        let mut plan = PluginPlan { is_enabled: true, ..plan };
        let candidate = match build {
            Some(Build { library, isolation, trust, .. }) if !is_failed => {
                self.open_checked_in_background(Judged { library, isolation, trust }, &plan).await?
            }
            _ => self.open_in_background(&mut plan, is_path_settled, false).await?,
        };
        if is_running {
            // Its process failed for good: a new instance takes the place of the dead one.
            return self.switch(name, plan, candidate, true, started).await;
        }
        self.enable_candidate(plan, candidate, ModuleOperation::Enable, started).await
    }

    /// Starts a candidate. A known module whose plugin says no becomes failed.
    async fn enable_candidate(
        self: &Arc<Self>,
        plan: PluginPlan,
        candidate: Candidate,
        operation: ModuleOperation,
        started: Instant,
    ) -> Result<ModuleReport, HostError> {
        let (host, name) = (Arc::clone(self), plan.name.clone());
        let outcome = blocking(move || host.enable(&plan, candidate, &[])).await;
        if let Err(error) = outcome {
            if matches!(error, HostError::NotStarted { .. }) {
                self.note_failure(&name, error.to_string(), started);
            }
            return Err(error);
        }
        Ok(self.report(&name, operation, ModuleState::Enabled, started))
    }

    fn note_failure(&self, name: &str, reason: String, started: Instant) {
        {
            let mut modules = self.modules();
            let Some(module) = modules.by_name.get_mut(name) else { return };
            module.state = State::Failed(reason.clone());
        }
        let report = self.report(name, ModuleOperation::Fail, ModuleState::Failed, started);
        self.bus.publish(ModuleChanged { report: ModuleReport { reason: Some(reason), ..report } });
    }

    pub(crate) async fn disable(
        self: &Arc<Self>,
        name: &str,
        waits_for_drain: bool,
        started: Instant,
    ) -> Result<ModuleReport, HostError> {
        let running = {
            let mut modules = self.modules();
            modules.check_needed(name, None)?;
            let module = modules.get_mut(name)?;
            let Some(running) = module.running().cloned() else {
                let problem = not_running(module.state());
                return Err(HostError::WrongState { name: name.to_owned(), problem });
            };
            module.state = State::Disabled;
            module.plan.is_enabled = false;
            self.router.replace(RouteTable::of(modules.running()));
            running
        };
        let old = self.modules().get(name)?.build.as_ref().map(Build::describe);
        let namespace = running.manifest.namespace.clone();
        let mut ended = Ended { running_calls: running.gate.calls(), ..Ended::default() };
        ended.closed_subscriptions = running.close(&unavailable(&namespace));
        let reason = format!("namespace {namespace} was disabled");
        self.end(running, reason, waits_for_drain, &mut ended).await;
        let report = self.report(name, ModuleOperation::Disable, ModuleState::Disabled, started);
        Ok(with_ended(ModuleReport { old, ..report }, ended))
    }

    async fn unload(
        self: &Arc<Self>,
        name: &str,
        waits_for_drain: bool,
        started: Instant,
    ) -> Result<ModuleReport, HostError> {
        let is_enabled = self.modules().get(name)?.running().is_some();
        let report = if is_enabled {
            self.disable(name, waits_for_drain, started).await?
        } else {
            let old = self.modules().get(name)?.build.as_ref().map(Build::describe);
            ModuleReport { old, ..self.report(name, ModuleOperation::Unload, ModuleState::Unloaded, started) }
        };
        self.modules().by_name.remove(name);
        let total_micros = micros(started.elapsed());
        let (operation, state) = (ModuleOperation::Unload, ModuleState::Unloaded);
        Ok(ModuleReport { operation, state, new: None, total_micros, ..report })
    }

    async fn replace_module(
        self: &Arc<Self>,
        name: &str,
        given: Given,
        waits_for_drain: bool,
        started: Instant,
    ) -> Result<ModuleReport, HostError> {
        let (mut plan, mut is_path_settled, is_enabled, old) = {
            let modules = self.modules();
            let module = modules.get(name)?;
            let old = module.build.as_ref().map(Build::describe);
            (module.plan.clone(), module.is_path_settled, module.running().is_some(), old)
        };
        let (is_same_path, is_vouched_for) = given.put_into(&mut plan);
        is_path_settled &= is_same_path;
        let candidate = self.open_in_background(&mut plan, is_path_settled, is_vouched_for).await?;
        if is_enabled {
            return self.switch(name, plan, candidate, waits_for_drain, started).await;
        }
        self.modules().check_namespace(name, &candidate.build)?;
        let state = match self.modules().get(name)?.state {
            State::Disabled => State::Disabled,
            _ => State::Loaded,
        };
        self.put(&plan, candidate.build, state);
        let state = self.modules().get(name)?.state();
        Ok(ModuleReport { old, ..self.report(name, ModuleOperation::Replace, state, started) })
    }

    /// Puts a candidate in the place of an enabled module: no call is refused or lost, subscriptions go on where the
    /// new build takes them.
    async fn switch(
        self: &Arc<Self>,
        name: &str,
        plan: PluginPlan,
        candidate: Candidate,
        waits_for_drain: bool,
        started: Instant,
    ) -> Result<ModuleReport, HostError> {
        let (running, old) = self.check_switch(name, &candidate)?;
        let begun = self.begin_next(&running, plan.clone(), candidate).await;
        let (build, next) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                running.gate.release();
                return Err(error);
            }
        };
        self.put(&plan, build, State::Enabled(Arc::clone(&next)));
        let mut ended = Ended { running_calls: running.gate.calls(), ..Ended::default() };
        // In this order: whoever waited finds the new route, and the old gate closed.
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
    ) -> Result<(Arc<Running>, Option<ModuleBuild>), HostError> {
        let modules = self.modules();
        let module = modules.get(name)?;
        let manifest = &candidate.build.manifest;
        let Some(running) = module.running() else {
            return Err(HostError::WrongState { name: name.to_owned(), problem: "is not enabled any more".to_owned() });
        };
        if running.manifest.namespace != manifest.namespace {
            let (old, new) = (&running.manifest.namespace, &manifest.namespace);
            let problem = format!("serves {old}, and the new library serves {new}; load that under a name of its own");
            return Err(HostError::WrongState { name: name.to_owned(), problem });
        }
        modules.check_needs(name, manifest)?;
        modules.check_needed(name, Some(manifest))?;
        Ok((Arc::clone(running), module.build.as_ref().map(Build::describe)))
    }

    /// Starts the new instance with the state of the old one. When there is state, calls wait from its export until the
    /// switch, or what they change in between would be lost.
    async fn begin_next(
        self: &Arc<Self>,
        running: &Arc<Running>,
        plan: PluginPlan,
        candidate: Candidate,
    ) -> Result<(Build, Arc<Running>), HostError> {
        let mut handover = export(running).await;
        if !handover.is_empty() {
            running.gate.hold();
            let _ = timeout(HANDOVER_WAIT, running.gate.without_cheap_calls()).await;
            handover = export(running).await;
        }
        let host = Arc::clone(self);
        blocking(move || host.begin(&plan, candidate, &handover)).await
    }

    async fn hand_over_subscriptions(&self, old: &Arc<Running>, next: &Arc<Running>, ended: &mut Ended) {
        let namespace = &old.manifest.namespace;
        if !(old.manifest.has_lasting_subscriptions && next.manifest.has_lasting_subscriptions) {
            ended.closed_subscriptions = old.close(&format!("namespace {namespace} was replaced; subscribe again"));
            return;
        }
        let mut kept = Vec::new();
        for slot in old.open_slots() {
            match slot.open_next(next, Instant::now() + ACCEPT_WAIT).await {
                Ok(()) => kept.push(slot),
                Err(failure) => {
                    let notice = format!("subscription closed: the new version of {namespace} refused it: {failure}");
                    slot.close(tenon_api::Failure::server(notice));
                    ended.closed_subscriptions += 1;
                }
            }
        }
        // From here on events reach the new instance; the old one says what it still has to say.
        old.instance.end_events();
        let deadline = Instant::now() + self.options.grace;
        for slot in &kept {
            slot.finish_current(deadline).await;
            next.add_slot(slot);
        }
        ended.kept_subscriptions = kept.len() as u64;
    }

    /// Waits for what runs in an instance whose gate is closed, and stops it.
    async fn end(&self, running: Arc<Running>, reason: String, waits: bool, ended: &mut Ended) {
        let deadline = Instant::now() + self.options.grace;
        let began = Instant::now();
        let work = async move {
            let drained = running.drain(deadline, &reason).await;
            let plugin = running.manifest.name.clone();
            // Of one that has drained, a look-up that was refused entry may hold a share: for an instant, or on a busy
            // machine until its thread gets its turn.
            let wait = if drained.abandoned == 0 { SHARE_WAIT } else { STOP_WAIT };
            let is_stopped = running.stop(Instant::now() + wait).await;
            if !is_stopped {
                tracing::warn!(
                    plugin,
                    calls = drained.abandoned,
                    "an old instance still has calls; it stays until they end"
                );
            }
            (drained, is_stopped)
        };
        if !waits {
            ended.is_draining = true;
            tokio::spawn(work);
            return;
        }
        let (drained, is_stopped) = work.await;
        ended.drain = began.elapsed();
        ended.cancelled_calls = drained.cancelled;
        ended.abandoned_calls = if is_stopped { 0 } else { drained.abandoned };
    }

    fn find(&self, name: &str) -> Result<PathBuf, HostError> {
        find(name, &self.options.folders).ok_or_else(|| {
            let folders: Vec<_> = self.options.folders.iter().map(|folder| folder.path.display().to_string()).collect();
            HostError::NotFound { name: name.to_owned(), folders: folders.join(", ") }
        })
    }

    /// A report of an operation that found nothing running.
    pub(crate) fn report(
        &self,
        name: &str,
        operation: ModuleOperation,
        state: ModuleState,
        started: Instant,
    ) -> ModuleReport {
        let new = match state {
            ModuleState::Loaded | ModuleState::Enabled => {
                self.modules().by_name.get(name).and_then(|module| module.build.as_ref().map(Build::describe))
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

/// Why a module that does not run cannot be disabled.
fn not_running(state: ModuleState) -> String {
    match state {
        ModuleState::Disabled => "is disabled already".to_owned(),
        other => format!("is {} and not enabled", other.name()),
    }
}

fn check_name(name: &str) -> Result<(), HostError> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(is_good) {
        return Ok(());
    }
    Err(HostError::BadName { name: name.to_owned() })
}

fn with_ended(report: ModuleReport, ended: Ended) -> ModuleReport {
    ModuleReport {
        running_calls: ended.running_calls,
        cancelled_calls: ended.cancelled_calls,
        abandoned_calls: ended.abandoned_calls,
        kept_subscriptions: ended.kept_subscriptions,
        closed_subscriptions: ended.closed_subscriptions,
        drain_micros: micros(ended.drain),
        is_draining: ended.is_draining,
        ..report
    }
}

/// The state that an instance hands over. One that cannot say is replaced without.
async fn export(running: &Arc<Running>) -> Vec<u8> {
    let exporting = Arc::clone(running);
    let exported = blocking(move || Ok(exporting.instance.export_state())).await;
    match exported {
        Ok(Ok(state)) => state,
        Ok(Err(failure)) => {
            tracing::warn!(plugin = running.manifest.name, %failure, "no state is handed over");
            Vec::new()
        }
        Err(_) => Vec::new(),
    }
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
