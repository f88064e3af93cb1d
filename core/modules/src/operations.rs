//! The operations on modules. Each is a transaction: it is done as a whole, or fails with a reason and changes nothing.
//!
//! One operation runs at a time, on its own task: it completes even if the caller leaves.

mod applied_settings;
mod replacement;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tenon_api::{
    messages::{ModuleChange, ModuleChanged, ModuleOperation, ModuleReport, ModuleState, ModuleTerms},
    shown_name,
};
use tokio::time::Instant;

pub use applied_settings::AppliedPlan;
use tenon_host::{LAST_REFERENCE_TIMEOUT, RouteTable, RunningPlugin, find_library, library_name};

use crate::{
    ModuleError, ModuleRegister, PluginPlan,
    candidates::{Candidate, CheckedCandidate},
    end_times::end_after,
    low_priority::blocking,
    plugin_module::{Build, State},
    reports::{micros, unavailable},
};

/// Time limit for the last reference to an instance that still has calls to be dropped.
const STOP_TIMEOUT: Duration = Duration::from_millis(100);
/// Maximum length of a module name.
const MAX_NAME: usize = 64;
/// Maximum length of a path, bytes: that of the system.
const MAX_PATH: usize = 4096;

/// The operator's arguments for loading or replacing a module.
struct LoadArguments {
    path: Option<String>,
    settings: Option<String>,
    terms: ModuleTerms,
}

impl LoadArguments {
    /// Applies them to a plan, whose other fields stay. Returns whether the path is the plan's own, and whether the
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

/// Counts of the calls and subscriptions that were in flight.
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

impl ModuleRegister {
    /// Performs one operation on a module.
    ///
    /// # Errors
    /// [`ModuleError`]: nothing has changed; only a module that was to be enabled may have become failed.
    pub async fn change(
        self: &Arc<Self>,
        name: &str,
        change: ModuleChange,
        waits_for_drain: bool,
    ) -> Result<ModuleReport, ModuleError> {
        let (host, name) = (Arc::clone(self), name.to_owned());
        let task = tokio::spawn(async move {
            let _operation = host.operation.lock().await;
            match host.change_exclusively(&name, change, waits_for_drain).await {
                // Already in the wanted state; store a choice that could not be stored before.
                Err(error @ ModuleError::WrongState { .. }) => {
                    Err(host.retry_writing_choices(&name).await.err().unwrap_or(error))
                }
                outcome => outcome.map_err(|error| host.with_actor_names(error)),
            }
        });
        task.await.unwrap_or(Err(ModuleError::Crashed))
    }

    async fn change_exclusively(
        self: &Arc<Self>,
        name: &str,
        change: ModuleChange,
        waits_for_drain: bool,
    ) -> Result<ModuleReport, ModuleError> {
        check_path(&change)?;
        let name = name_in(&change, name)?.to_owned();
        let name = name.as_str();
        self.modules.lock().check_not_shutting_down()?;
        let started = Instant::now();
        let (change, end) = match change {
            ModuleChange::EnableFor { seconds } => (ModuleChange::Enable, Some(end_after(seconds)?)),
            change => (change, None),
        };
        if matches!(change, ModuleChange::Enable)
            && let Some(report) = self.change_end(name, end, started)?
        {
            return self.finish_operation(report).await;
        }
        if let Some(actor) = self.actor(name) {
            if matches!(change, ModuleChange::Load { .. }) {
                return Err(ModuleError::name_of_actor(name));
            }
            let report = self.change_actor(&actor, &change, started).await?;
            self.set_end(name, end);
            return self.finish_operation(report).await;
        }
        let keeps_end = matches!(change, ModuleChange::Replace { .. });
        let report = match change {
            ModuleChange::Load { path, settings, is_enabled, terms } => {
                let given = LoadArguments { path, settings, terms };
                self.load_module(name, given, is_enabled, started).await?
            }
            ModuleChange::Enable | ModuleChange::EnableFor { .. } => self.enable_module(name, started).await?,
            ModuleChange::Disable => self.disable(name, waits_for_drain, started).await?,
            ModuleChange::Replace { path, settings, terms } => {
                let given = LoadArguments { path, settings, terms };
                self.replace_module(name, given, waits_for_drain, started).await?
            }
            ModuleChange::Unload => self.unload(name, waits_for_drain, started).await?,
        };
        if !keeps_end {
            self.set_end(name, end);
        }
        self.finish_operation(report).await
    }

    /// Changes or removes the end of a module enabled for a limited time. `None` if the module must be started first.
    pub(crate) fn change_end(
        &self,
        name: &str,
        end: Option<u64>,
        started: Instant,
    ) -> Result<Option<ModuleReport>, ModuleError> {
        let is_enabled = self.info(name)?.state == ModuleState::Enabled;
        match (is_enabled, self.end_of(name), end) {
            (true, Some(_), end) => {
                self.set_end(name, end);
                Ok(Some(self.report(name, ModuleOperation::Enable, ModuleState::Enabled, started)))
            }
            (true, None, Some(_)) => {
                let problem =
                    "is enabled without a time limit; disable it before you enable it for a limited time".to_owned();
                Err(ModuleError::WrongState { name: name.to_owned(), problem })
            }
            _ => Ok(None),
        }
    }

    async fn load_module(
        self: &Arc<Self>,
        name: &str,
        given: LoadArguments,
        is_enabled: bool,
        started: Instant,
    ) -> Result<ModuleReport, ModuleError> {
        if self.modules.lock().by_name.contains_key(name) {
            let problem = "is loaded already; replace it, or unload it first".to_owned();
            return Err(ModuleError::WrongState { name: name.to_owned(), problem });
        }
        // The settings of this name apply also to another library: its capabilities, isolation and limits.
        let configured = self.configured.lock().get(name).cloned();
        let is_configured = configured.is_some();
        let mut plan = match (configured, &given.path) {
            (Some(plan), _) => plan,
            (None, Some(path)) => PluginPlan::new(name, path),
            (None, None) => PluginPlan::new(name, self.find(name)?),
        };
        plan.is_enabled = is_enabled;
        let (is_same_path, is_vouched_for) = given.put_into(&mut plan);
        let is_path_configured = is_configured && is_same_path;
        let candidate = self.open_in_background(&mut plan, is_path_configured, is_vouched_for).await?;
        if is_enabled {
            let report = self.enable_candidate(plan, candidate, ModuleOperation::Load, started).await?;
            self.modules.lock().get_mut(name)?.is_path_configured = is_path_configured;
            return Ok(report);
        }
        self.modules.lock().check_namespace(name, &candidate.build)?;
        self.put(&plan, candidate.build, State::Loaded)?;
        self.modules.lock().get_mut(name)?.is_path_configured = is_path_configured;
        Ok(self.report(name, ModuleOperation::Load, ModuleState::Loaded, started))
    }

    pub(crate) async fn enable_module(
        self: &Arc<Self>,
        name: &str,
        started: Instant,
    ) -> Result<ModuleReport, ModuleError> {
        let (plan, build, is_path_configured) = {
            let modules = self.modules.lock();
            let module = modules.get(name)?;
            if module.running().is_some_and(|running| running.instance.failure().is_none()) {
                return Err(ModuleError::WrongState {
                    name: name.to_owned(),
                    problem: "is enabled already".to_owned(),
                });
            }
            (module.plan.clone(), module.build.clone(), module.is_path_configured)
        };
        // Starts the library that was checked when it was loaded, even if its path now holds another one. A failed
        // library may have been repaired.
        let (is_failed, is_running) = {
            let modules = self.modules.lock();
            let module = modules.get(name)?;
            (module.state() == ModuleState::Failed, module.running().is_some())
        };
        let mut plan = PluginPlan { is_enabled: true, ..plan };
        let candidate = match build {
            Some(Build { library, isolation, trust, .. }) if !is_failed => {
                self.open_checked_in_background(CheckedCandidate { library, isolation, trust }, &plan).await?
            }
            _ => self.open_in_background(&mut plan, is_path_configured, false).await?,
        };
        if is_running {
            // Its process failed for good: a new instance replaces it.
            return self.switch(name, plan, candidate, true, started).await;
        }
        self.enable_candidate(plan, candidate, ModuleOperation::Enable, started).await
    }

    /// Starts a candidate. A known module becomes failed if its plugin refuses to start.
    async fn enable_candidate(
        self: &Arc<Self>,
        plan: PluginPlan,
        candidate: Candidate,
        operation: ModuleOperation,
        started: Instant,
    ) -> Result<ModuleReport, ModuleError> {
        let (host, name, build) = (Arc::clone(self), plan.name.clone(), candidate.build.clone());
        let outcome = blocking(move || host.enable(&plan, candidate, Duration::MAX)).await;
        if let Err(error) = outcome {
            // Its library had not been opened before: now its namespace and its needs are known.
            if let Some(module) = self.modules.lock().by_name.get_mut(&name).filter(|module| module.lacks_space()) {
                module.build = Some(build);
            }
            if matches!(error, ModuleError::NotStarted { .. }) {
                self.note_failure(&name, error.to_string(), started);
            }
            return Err(error);
        }
        Ok(self.report(&name, operation, ModuleState::Enabled, started))
    }

    pub(crate) fn note_failure(&self, name: &str, reason: String, started: Instant) {
        {
            let mut modules = self.modules.lock();
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
    ) -> Result<ModuleReport, ModuleError> {
        let running = {
            let mut modules = self.modules.lock();
            modules.check_needed(name, None)?;
            let module = modules.get_mut(name)?;
            let running = module.running().cloned();
            if running.is_none() && !module.lacks_space() {
                let problem = not_running(module.state());
                return Err(ModuleError::WrongState { name: name.to_owned(), problem });
            }
            module.state = State::Disabled;
            module.plan.is_enabled = false;
            let Some(running) = running else {
                // It no longer starts when there is space.
                drop(modules);
                return Ok(self.report(name, ModuleOperation::Disable, ModuleState::Disabled, started));
            };
            self.router.replace(RouteTable::of(modules.running()));
            running
        };
        let old = self.modules.lock().get(name)?.build.as_ref().map(Build::describe);
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
    ) -> Result<ModuleReport, ModuleError> {
        let is_enabled = self.modules.lock().get(name)?.running().is_some();
        let report = if is_enabled {
            self.disable(name, waits_for_drain, started).await?
        } else {
            let old = self.modules.lock().get(name)?.build.as_ref().map(Build::describe);
            ModuleReport { old, ..self.report(name, ModuleOperation::Unload, ModuleState::Unloaded, started) }
        };
        self.modules.lock().by_name.remove(name);
        let total_micros = micros(started.elapsed());
        let (operation, state) = (ModuleOperation::Unload, ModuleState::Unloaded);
        Ok(ModuleReport { operation, state, new: None, total_micros, ..report })
    }

    /// Waits for the running calls of an instance whose gate is closed, and stops it.
    async fn end(&self, running: Arc<RunningPlugin>, reason: String, waits: bool, ended: &mut Ended) {
        let deadline = Instant::now() + self.options.grace;
        let began = Instant::now();
        let work = async move {
            let drained = running.drain(deadline, &reason).await;
            let plugin = running.name.clone();
            // A look-up that was refused entry may briefly hold a reference to a drained instance; on a busy machine, until
            // its thread is scheduled again.
            let wait = if drained.abandoned == 0 { LAST_REFERENCE_TIMEOUT } else { STOP_TIMEOUT };
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

    fn find(&self, name: &str) -> Result<PathBuf, ModuleError> {
        find_library(name, &self.options.folders).ok_or_else(|| {
            let folders: Vec<_> = self.options.folders.iter().map(|folder| folder.path.display().to_string()).collect();
            ModuleError::NotFound { name: name.to_owned(), folders: folders.join(", ") }
        })
    }
}

/// Why a stopped module cannot be disabled.
fn not_running(state: ModuleState) -> String {
    match state {
        ModuleState::Disabled => "is disabled already".to_owned(),
        other => format!("is {} and not enabled", other.name()),
    }
}

/// Checks the length of a given path.
fn check_path(change: &ModuleChange) -> Result<(), ModuleError> {
    match change {
        ModuleChange::Load { path: Some(path), .. } | ModuleChange::Replace { path: Some(path), .. }
            if path.len() > MAX_PATH =>
        {
            Err(ModuleError::LongPath { beginning: shown_name(path), max: MAX_PATH })
        }
        _ => Ok(()),
    }
}

/// The name of the module to change. Without a given name, a loaded library has the name of its file.
fn name_in<'a>(change: &'a ModuleChange, name: &'a str) -> Result<&'a str, ModuleError> {
    match change {
        ModuleChange::Load { path: Some(path), .. } if name.is_empty() => library_name(Path::new(path))
            .filter(|name| check_name(name).is_ok())
            .ok_or_else(|| ModuleError::NamelessFile { path: path.into() }),
        _ => check_name(name).map(|()| name),
    }
}

fn check_name(name: &str) -> Result<(), ModuleError> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(is_good) {
        return Ok(());
    }
    Err(ModuleError::BadName { name: shown_name(name) })
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
