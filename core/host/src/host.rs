//! The set of plugins, from the node's start to its end.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use tenon_api::{
    Capability, Failure,
    messages::{ChangeModule, GetModule, ListModules, ListNamespaceVersions, ListNamespaces, ModuleInfo, PurgeSpace},
};
use tenon_bus::{Bus, CallContext, RegisterError};
use tokio::time::Instant;

use crate::{
    HostError, HostOptions, Isolation, IsolationOptions, Manifest, PluginPlan, Router, VouchedBuilds,
    actors::KnownActor,
    boundary::Library,
    choices::Choices,
    ends::Ends,
    instance::{OpenedPlugin, Start},
    isolation,
    library_cache::{CheckedLibrary, LibraryCache},
    library_file::{Steps, Unpaused, library_name},
    low_priority::{InPieces, blocking, run_at_low_priority},
    module::{Build, Module, Modules, State},
    router::RouteTable,
    running::Running,
    space::Space,
    trust::Trust,
};

/// Result of [`PluginHost::shutdown`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Plugins that were stopped.
    pub stopped: Vec<String>,
    /// Plugins with calls that did not end even when cancelled, and the number of those calls. They are stopped when
    /// the last one ends.
    pub abandoned: Vec<(String, usize)>,
}

/// Loads plugins and owns them.
pub struct PluginHost {
    pub(crate) bus: Bus,
    pub(crate) options: HostOptions,
    pub(crate) router: Router,
    /// The copies that libraries are loaded from.
    pub(crate) libraries: LibraryCache,
    /// The choices that the last operation stored for the next start. Nothing awaits under the lock.
    pub(crate) kept: Mutex<Option<Choices>>,
    /// Changed by operations only; nothing awaits under the lock.
    modules: Mutex<Modules>,
    /// Whether the last operation's choices could not be written.
    pub(crate) is_unsaved: AtomicBool,
    /// Module actors, in the order of their start. Nothing awaits under the lock.
    pub(crate) actors: Mutex<Vec<Arc<KnownActor>>>,
    /// Ends of modules that are enabled for a limited time. Changed by operations only; nothing awaits under the lock.
    pub(crate) ends: Mutex<Ends>,
    /// Notified of every change of `ends`.
    pub(crate) ends_changed: tokio::sync::Notify,
    /// Builds that the settings vouch for. Nothing awaits under the lock.
    vouched: Mutex<VouchedBuilds>,
    /// The last applied settings. Used by operations only.
    pub(crate) settled: Mutex<BTreeMap<String, PluginPlan>>,
    /// Held by the running operation.
    pub(crate) operation: tokio::sync::Mutex<()>,
}

/// An opened library, ready to start.
pub(crate) struct Candidate {
    pub(crate) build: Build,
    opened: Box<dyn OpenedPlugin>,
}

/// A checked library, with its isolation and trust.
#[derive(Clone)]
pub(crate) struct Judged {
    pub(crate) library: CheckedLibrary,
    pub(crate) isolation: Isolation,
    pub(crate) trust: Trust,
}

impl PluginHost {
    /// Creates a host without plugins. `bus` serves the plugins' requests.
    pub fn new(bus: Bus, options: HostOptions) -> Arc<Self> {
        let HostOptions { slow_calls, slow_queue, ref aliases, ref unserved, .. } = options;
        let router = Router::new(slow_calls.get(), slow_queue, aliases.clone(), unserved.clone());
        let libraries = LibraryCache::new(options.cache_folder.clone());
        let vouched = Mutex::new(options.vouched.clone());
        Arc::new(Self {
            bus,
            options,
            router,
            libraries,
            kept: Mutex::default(),
            modules: Mutex::default(),
            is_unsaved: AtomicBool::new(false),
            actors: Mutex::default(),
            ends: Mutex::default(),
            ends_changed: tokio::sync::Notify::new(),
            vouched,
            settled: Mutex::default(),
            operation: tokio::sync::Mutex::default(),
        })
    }

    /// Loads a library into this process, starts it and routes its namespace to it. `settings` is the JSON text of the plugin's
    /// own settings; empty means none. Blocks for a few milliseconds.
    ///
    /// # Errors
    /// [`HostError`]: nothing has changed, except that the library may stay mapped.
    pub fn load(&self, path: &Path, settings: &str) -> Result<ModuleInfo, HostError> {
        let _operation = self.operation.try_lock().map_err(|_| HostError::Busy)?;
        if self.modules().is_shutting_down {
            return Err(HostError::ShuttingDown);
        }
        let name = library_name(path).unwrap_or_default();
        let mut plan = PluginPlan::new(name, path);
        if !settings.is_empty() {
            plan.settings = settings.to_owned();
        }
        plan.isolation = Some(Isolation::InProcess);
        let candidate = self.open(&plan, false)?;
        // Not even under its own name: this is not a replacement.
        self.modules().check_namespace("", &candidate.build)?;
        self.enable(&plan, candidate, Duration::MAX)?;
        self.info(name)
    }

    /// Checks a library, and opens the checked copy. Blocks.
    fn open(&self, plan: &PluginPlan, is_path_settled: bool) -> Result<Candidate, HostError> {
        let library = self.take(plan, is_path_settled, &Unpaused)?;
        self.open_checked(self.judge(library, plan, false)?, plan, Duration::MAX)
    }

    /// Sets the builds that the operator's settings vouch for. Running plugins are not affected.
    pub fn vouch_for(&self, builds: VouchedBuilds) {
        *self.vouched.lock().unwrap_or_else(PoisonError::into_inner) = builds;
    }

    /// The trust in a build.
    fn trust(&self, plan: &PluginPlan, hash: &str, is_vouched_for: bool) -> Trust {
        if self.options.built_ins.has(hash) {
            return Trust::BuiltIn;
        }
        let of_settings = || self.vouched.lock().unwrap_or_else(PoisonError::into_inner).has(hash);
        let is_vouched =
            is_vouched_for || self.options.vouches_for_all || plan.vouched.as_deref() == Some(hash) || of_settings();
        if is_vouched { Trust::Vouched } else { Trust::Foreign }
    }

    /// Determines the trust in a checked library, and its isolation. Nothing of it has been mapped yet.
    ///
    /// # Errors
    /// [`HostError::UnknownBuild`] for a foreign build that has the name of a built-in plugin, or would replace a build
    /// that is built in or vouched for. [`HostError::ForeignInProcess`] for a foreign build with `in-process` isolation
    /// in its settings.
    pub(crate) fn judge(
        &self,
        library: CheckedLibrary,
        plan: &PluginPlan,
        is_vouched_for: bool,
    ) -> Result<Judged, HostError> {
        let trust = self.trust(plan, &library.hash, is_vouched_for);
        let has_own_build = || {
            let modules = self.modules();
            let build = modules.by_name.get(&plan.name).and_then(|module| module.build.as_ref());
            build.is_some_and(|build| build.trust != Trust::Foreign)
        };
        if trust == Trust::Foreign && (self.options.built_ins.has_name(&plan.name) || has_own_build()) {
            return Err(HostError::UnknownBuild { name: plan.name.clone(), path: library.path, hash: library.hash });
        }
        let default = if trust == Trust::Foreign { Isolation::Process } else { Isolation::InProcess };
        let isolation = plan.isolation.unwrap_or(default);
        if (trust, isolation) == (Trust::Foreign, Isolation::InProcess) {
            return Err(HostError::ForeignInProcess {
                name: plan.name.clone(),
                path: library.path,
                hash: library.hash,
            });
        }
        Ok(Judged { library, isolation, trust })
    }

    /// Checks a library, and copies the checked bytes. Blocks.
    pub(crate) fn take(
        &self,
        plan: &PluginPlan,
        is_path_settled: bool,
        steps: &impl Steps,
    ) -> Result<CheckedLibrary, HostError> {
        let folders = (!is_path_settled).then_some(self.options.folders.as_slice());
        self.libraries.take_by(&plan.path, folders, steps)
    }

    /// Opens a checked library. Blocks; waits at most `most` for a process.
    pub(crate) fn open_checked(
        &self,
        judged: Judged,
        plan: &PluginPlan,
        most: Duration,
    ) -> Result<Candidate, HostError> {
        let Judged { library, isolation, trust } = judged;
        let opened: Box<dyn OpenedPlugin> = match (isolation, &self.options.processes) {
            (Isolation::InProcess, _) => {
                let opened = Library::open(&library)?;
                self.libraries.note_mapped(&library.copy);
                Box::new(opened)
            }
            (Isolation::Process, Some(options)) => {
                let needs_sandbox = trust == Trust::Foreign && !plan.may_run_unsandboxed;
                let options = IsolationOptions { needs_sandbox, ..plan.limits.apply_to(options) };
                isolation::open(&library, &options, most)?
            }
            (Isolation::Process, None) => {
                let reason = "this program cannot start plugins in processes of their own".to_owned();
                return Err(HostError::Process { path: library.path, reason });
            }
        };
        let manifest = opened.manifest().clone();
        if trust == Trust::Foreign && self.is_reserved(&manifest.namespace) {
            return Err(HostError::ReservedNamespace { path: library.path, namespace: manifest.namespace });
        }
        Ok(Candidate { build: Build { library, manifest, isolation, trust }, opened })
    }

    /// Whether a namespace belongs to a built-in plugin, under its own name or the reference's. Holds also while that
    /// plugin is disabled or could not be loaded, and without a list of built-in plugins: clients mean that plugin in
    /// their requests, passwords included.
    fn is_reserved(&self, namespace: &str) -> bool {
        let HostOptions { aliases, reserved, built_ins, .. } = &self.options;
        let mut names = aliases.iter().map(|alias| &alias.name).chain(reserved);
        built_ins.has_namespace(namespace) || names.any(|name| name.eq_ignore_ascii_case(namespace))
    }

    /// As [`PluginHost::open`], in the background. Notes in the plan if the operator vouches for the build.
    pub(crate) async fn open_in_background(
        self: &Arc<Self>,
        plan: &mut PluginPlan,
        is_path_settled: bool,
        is_vouched_for: bool,
    ) -> Result<Candidate, HostError> {
        let (host, of_plan) = (Arc::clone(self), plan.clone());
        let library = run_at_low_priority(move || host.take(&of_plan, is_path_settled, &InPieces)).await?;
        let judged = self.judge(library, plan, is_vouched_for)?;
        if is_vouched_for {
            plan.vouched = Some(judged.library.hash.clone());
        }
        self.open_checked_in_background(judged, plan).await
    }

    /// As [`PluginHost::open_checked`], in the background.
    pub(crate) async fn open_checked_in_background(
        self: &Arc<Self>,
        judged: Judged,
        plan: &PluginPlan,
    ) -> Result<Candidate, HostError> {
        let (host, plan, isolation) = (Arc::clone(self), plan.clone(), judged.isolation);
        let open = move || host.open_checked(judged, &plan, Duration::MAX);
        match isolation {
            Isolation::InProcess => run_at_low_priority(open).await,
            // A process permanently inherits the priority of the thread that starts it; at low priority its callers
            // would wait longer after every operation.
            Isolation::Process => blocking(open).await,
        }
    }

    /// Capabilities that a plugin is granted of those it requests: the ones that its settings name. Without such
    /// settings, all if its build is built in or vouched for, and none if it is foreign.
    pub(crate) fn grants(&self, plan: &PluginPlan, manifest: &Manifest, trust: Trust) -> Vec<Capability> {
        let is_granted = |wanted: &Capability| {
            let is_open = match &plan.capabilities {
                Some(named) => named.contains(wanted),
                None => trust != Trust::Foreign,
            };
            is_open && self.options.granted.contains(wanted)
        };
        manifest.capabilities.iter().copied().filter(is_granted).collect()
    }

    /// Logs a plugin's grants. Those of a built-in plugin never vary.
    fn log_grants(plan: &PluginPlan, build: &Build, granted: &[Capability]) {
        let names = |capabilities: &[Capability]| {
            let names: Vec<_> = capabilities.iter().map(|capability| capability.name()).collect();
            names.join(",")
        };
        let (trust, isolation, hash) = (build.trust.name(), build.isolation.name(), build.library.hash.as_str());
        let (wanted, granted) = (names(&build.manifest.capabilities), names(granted));
        if build.trust == Trust::BuiltIn {
            tracing::debug!(module = plan.name, trust, isolation, hash, granted, wanted, "capabilities of a plugin");
        } else {
            tracing::info!(module = plan.name, trust, isolation, hash, granted, wanted, "capabilities of a plugin");
        }
    }

    /// Starts an instance without routing to it. Blocks; waits at most `most` for a process.
    pub(crate) fn begin(
        &self,
        plan: &PluginPlan,
        candidate: Candidate,
        handover: &[u8],
        most: Duration,
    ) -> Result<(Build, Arc<Running>), HostError> {
        let Candidate { build, opened } = candidate;
        let granted = self.grants(plan, &build.manifest, build.trust);
        Self::log_grants(plan, &build, &granted);
        let wanted = build.manifest.capabilities.iter().copied();
        let missing = wanted.filter(|capability| !granted.contains(capability)).collect();
        let limits = plan.storage.unwrap_or(self.options.space_limits);
        let space = Space::new(&plan.name, limits, self.options.spaces.as_ref());
        let in_force = plan.limits.in_force(build.isolation, self.options.processes.as_ref());
        let mut not_held = plan.limits.not_held(build.isolation);
        for warning in &not_held {
            tracing::warn!(module = plan.name, "{warning}");
        }
        let namespace = &build.manifest.namespace;
        if self.options.unserved.contains(namespace) {
            not_held.push(format!("this chain has no namespace {namespace}: no call reaches the module"));
        }
        let start = Start {
            name: &plan.name,
            most,
            granted,
            bus: self.bus.clone(),
            router: self.router.downgrade(),
            space,
            memory: self.options.memory.clone(),
            log_lines: plan.limits.log_lines,
            settings: &plan.settings,
            handover,
        };
        let instance = opened.start(start).map_err(|failure| HostError::NotStarted {
            path: build.library.path.clone(),
            failure,
            missing,
        })?;
        let calls = self.router.places(&build.manifest);
        let running =
            Arc::new(Running::new(plan.name.clone(), build.manifest.clone(), instance, calls, in_force, not_held));
        Ok((build, running))
    }

    /// Starts a plugin and routes its namespace to it. Blocks; waits at most `most` for a process.
    pub(crate) fn enable(&self, plan: &PluginPlan, candidate: Candidate, most: Duration) -> Result<(), HostError> {
        {
            let modules = self.modules();
            modules.check_namespace(&plan.name, &candidate.build)?;
            modules.check_needs(&plan.name, &candidate.build.manifest)?;
        }
        let (build, running) = self.begin(plan, candidate, &[], most)?;
        self.put(plan, build, State::Enabled(running));
        Ok(())
    }

    /// Records a module's state, and updates the routes.
    pub(crate) fn put(&self, plan: &PluginPlan, build: Build, state: State) {
        let granted = self.grants(plan, &build.manifest, build.trust);
        let mut modules = self.modules();
        let is_path_settled = match modules.by_name.get(&plan.name) {
            Some(known) => known.is_path_settled && known.plan.path == plan.path,
            None => false,
        };
        let module = Module { plan: plan.clone(), is_path_settled, build: Some(build), granted, state };
        let started = module.running().map(Arc::clone);
        let before = modules.by_name.insert(plan.name.clone(), module);
        self.router.replace(RouteTable::of(modules.running()));
        // Stop the old one first: two that follow the chain would write to the same storage.
        if let Some(before) = before.as_ref().and_then(Module::running) {
            before.end_background();
        }
        if let Some(started) = started {
            started.begin_background();
        }
    }

    /// The router over the plugins.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// All modules: plugins by name, then module actors by name.
    pub fn list(&self) -> Vec<ModuleInfo> {
        let modules: Vec<_> = {
            let modules = self.modules();
            let known = modules.by_name.iter();
            known.map(|(name, module)| (module.info(modules.needing(name)), module.plan.storage)).collect()
        };
        let mut list: Vec<_> = modules.into_iter().map(|(info, limits)| self.with_storage(info, limits)).collect();
        list.iter_mut().for_each(|info| info.until = self.end_of(&info.name));
        list.extend(self.list_actors());
        list
    }

    /// One module.
    ///
    /// # Errors
    /// [`HostError::Unknown`].
    pub fn info(&self, name: &str) -> Result<ModuleInfo, HostError> {
        if let Some(actor) = self.actor_info(name) {
            return Ok(actor);
        }
        let (info, limits) = {
            let modules = self.modules();
            let module = modules.get(name).map_err(|error| self.naming_parts(error))?;
            (module.info(modules.needing(name)), module.plan.storage)
        };
        Ok(ModuleInfo { until: self.end_of(name), ..self.with_storage(info, limits) })
    }

    /// Bytes that the node holds for each plugin in its own process: unread answers, running requests, and items that
    /// wait for its subscribers.
    pub fn held_for_processes(&self) -> Vec<(String, usize)> {
        let modules = self.modules();
        let held = |(name, module): (&String, &Module)| {
            let instance = &module.running()?.instance;
            instance.process().map(|_| (name.clone(), instance.held_bytes()))
        };
        modules.by_name.iter().filter_map(held).collect()
    }

    /// Removes all methods, closes subscriptions, waits at most `grace` for running calls, and stops the plugins, then
    /// the module actors that can be stopped. Libraries stay mapped.
    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        let running: Vec<_> = {
            let mut modules = self.modules();
            modules.is_shutting_down = true;
            let running = modules.running().map(Arc::clone).collect();
            modules.by_name.clear();
            running
        };
        self.router.replace(RouteTable::default());
        for plugin in &running {
            plugin.close(&unavailable(&plugin.manifest.namespace));
        }
        let deadline = Instant::now() + grace;
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

    pub(crate) fn modules(&self) -> MutexGuard<'_, Modules> {
        self.modules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn settled(&self) -> MutexGuard<'_, BTreeMap<String, PluginPlan>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notice for subscribers when their namespace is removed.
pub(crate) fn unavailable(namespace: &str) -> String {
    format!("namespace {namespace} is not available any more")
}

/// Registers bus handlers for the list of namespaces and for the module operations.
///
/// # Errors
/// If the bus already has a handler for one of them.
pub fn register(bus: &Bus, host: &Arc<PluginHost>) -> Result<(), RegisterError> {
    let router = host.router();
    bus.handle_read(move |_: ListNamespaces, _: &CallContext| Ok(router.namespaces()))?;
    let router = host.router();
    bus.handle_read(move |_: ListNamespaceVersions, _: &CallContext| Ok(router.versions()))?;
    let of_list = Arc::clone(host);
    bus.handle_read(move |_: ListModules, _: &CallContext| Ok(of_list.list()))?;
    let of_info = Arc::clone(host);
    bus.handle_read(move |request: GetModule, _: &CallContext| of_info.info(&request.name).map_err(Failure::from))?;
    let of_purge = Arc::clone(host);
    bus.handle(move |request: PurgeSpace, _: CallContext| {
        let host = Arc::clone(&of_purge);
        async move {
            let purged = tokio::task::spawn_blocking(move || host.purge_space(&request)).await;
            purged.unwrap_or(Err(HostError::Crashed)).map_err(Failure::from)
        }
    })?;
    let of_change = Arc::clone(host);
    bus.handle(move |request: ChangeModule, _: CallContext| {
        let host = Arc::clone(&of_change);
        async move { host.change(&request.name, request.change, request.waits_for_drain).await.map_err(Failure::from) }
    })
}
