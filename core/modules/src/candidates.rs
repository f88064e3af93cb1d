//! From a library's file to a started plugin: decides which builds may be loaded, where they run, and which
//! capabilities they are granted.

use std::{path::Path, sync::Arc, time::Duration};

use tenon_api::{Capability, messages::ModuleInfo};
use tenon_host::{
    CheckedLibrary, LocalPlugin, Manifest, NoCallbacks, OpenedPlugin, PluginStart, RouteTable, RunningPlugin, Space,
    Steps, Trust, VouchedBuilds, library_name,
};
use tenon_isolation::{self as isolation, Isolation, IsolationOptions};

use crate::{
    ModuleError, ModuleOptions, ModuleRegister, PluginPlan,
    low_priority::{YieldBetweenPieces, blocking, run_at_low_priority},
    plugin_module::{Build, KnownPlugin, State},
};

/// An opened library, ready to start.
pub(crate) struct Candidate {
    pub(crate) build: Build,
    opened: Box<dyn OpenedPlugin>,
}

/// A checked library, with its isolation and trust.
#[derive(Clone)]
pub(crate) struct CheckedCandidate {
    pub(crate) library: CheckedLibrary,
    pub(crate) isolation: Isolation,
    pub(crate) trust: Trust,
}

impl ModuleRegister {
    /// Loads a library into this process, starts it and routes its namespace to it. `settings` is the JSON text of the
    /// plugin's own settings; empty means none. Blocks for a few milliseconds.
    ///
    /// # Errors
    /// [`ModuleError`]: nothing has changed, except that the library may stay mapped.
    pub fn load(&self, path: &Path, settings: &str) -> Result<ModuleInfo, ModuleError> {
        let _operation = self.operation.try_lock().map_err(|_| ModuleError::Busy)?;
        self.modules.lock().check_not_shutting_down()?;
        let name = library_name(path).unwrap_or_default();
        let mut plan = PluginPlan::new(name, path);
        if !settings.is_empty() {
            plan.settings = settings.to_owned();
        }
        plan.isolation = Some(Isolation::InProcess);
        let candidate = self.open(&plan, false)?;
        // Not even under its own name: this is not a replacement.
        self.modules.lock().check_namespace("", &candidate.build)?;
        self.enable(&plan, candidate, Duration::MAX)?;
        self.info(name)
    }

    /// Checks a library, and opens the checked copy. Blocks.
    fn open(&self, plan: &PluginPlan, is_path_configured: bool) -> Result<Candidate, ModuleError> {
        let library = self.check_and_copy(plan, is_path_configured, &NoCallbacks)?;
        self.open_checked(self.check_candidate(library, plan, false)?, plan, Duration::MAX)
    }

    /// Sets the builds that the operator's settings vouch for. Running plugins are not affected.
    pub fn vouch_for(&self, builds: VouchedBuilds) {
        *self.vouched.lock() = builds;
    }

    /// The trust in a build.
    fn trust(&self, plan: &PluginPlan, hash: &str, is_vouched_for: bool) -> Trust {
        if self.options.built_ins.has(hash) {
            return Trust::BuiltIn;
        }
        let of_settings = || self.vouched.lock().has(hash);
        let is_vouched =
            is_vouched_for || self.options.vouches_for_all || plan.vouched.as_deref() == Some(hash) || of_settings();
        if is_vouched { Trust::Vouched } else { Trust::Foreign }
    }

    /// Determines the trust in a checked library, and its isolation. Nothing of it has been mapped yet.
    ///
    /// # Errors
    /// [`ModuleError::UnknownBuild`] for a foreign build that has the name of a built-in plugin, or would replace a build
    /// that is built in or vouched for. [`ModuleError::ForeignInProcess`] for a foreign build with `in-process`
    /// isolation in its settings.
    pub(crate) fn check_candidate(
        &self,
        library: CheckedLibrary,
        plan: &PluginPlan,
        is_vouched_for: bool,
    ) -> Result<CheckedCandidate, ModuleError> {
        let trust = self.trust(plan, &library.hash, is_vouched_for);
        let has_own_build = || {
            let modules = self.modules.lock();
            let build = modules.by_name.get(&plan.name).and_then(|module| module.build.as_ref());
            build.is_some_and(|build| build.trust != Trust::Foreign)
        };
        if trust == Trust::Foreign && (self.options.built_ins.has_name(&plan.name) || has_own_build()) {
            return Err(ModuleError::UnknownBuild { name: plan.name.clone(), path: library.path, hash: library.hash });
        }
        let default = if trust == Trust::Foreign { Isolation::Process } else { Isolation::InProcess };
        let isolation = plan.isolation.unwrap_or(default);
        if (trust, isolation) == (Trust::Foreign, Isolation::InProcess) {
            return Err(ModuleError::ForeignInProcess {
                name: plan.name.clone(),
                path: library.path,
                hash: library.hash,
            });
        }
        Ok(CheckedCandidate { library, isolation, trust })
    }

    /// Checks a library, and copies the checked bytes. Blocks.
    pub(crate) fn check_and_copy(
        &self,
        plan: &PluginPlan,
        is_path_configured: bool,
        steps: &impl Steps,
    ) -> Result<CheckedLibrary, ModuleError> {
        let folders = (!is_path_configured).then_some(self.options.folders.as_slice());
        Ok(self.libraries.check_and_copy_with(&plan.path, folders, steps)?)
    }

    /// Opens a checked library. Blocks; waits at most `timeout` for a process.
    pub(crate) fn open_checked(
        &self,
        checked: CheckedCandidate,
        plan: &PluginPlan,
        timeout: Duration,
    ) -> Result<Candidate, ModuleError> {
        let CheckedCandidate { library, isolation, trust } = checked;
        let opened: Box<dyn OpenedPlugin> = match (isolation, &self.options.processes) {
            (Isolation::InProcess, _) => {
                let opened = LocalPlugin::open(&library)?;
                self.libraries.note_mapped(&library.copy);
                Box::new(opened)
            }
            (Isolation::Process, Some(options)) => {
                let needs_sandbox = trust == Trust::Foreign && !plan.may_run_unsandboxed;
                let options = IsolationOptions { needs_sandbox, ..plan.limits.apply_to(options) };
                isolation::open(&library, &options, timeout)?
            }
            (Isolation::Process, None) => {
                return Err(ModuleError::NoProcesses { path: library.path });
            }
        };
        let manifest = opened.manifest().clone();
        if trust == Trust::Foreign && self.is_reserved(&manifest.namespace) {
            return Err(ModuleError::ReservedNamespace { path: library.path, namespace: manifest.namespace });
        }
        Ok(Candidate { build: Build { library, manifest, isolation, trust }, opened })
    }

    /// Whether a namespace belongs to a built-in plugin, under its own name or the reference's. Holds also while that
    /// plugin is disabled or could not be loaded, and without a list of built-in plugins: clients mean that plugin in
    /// their requests, passwords included.
    fn is_reserved(&self, namespace: &str) -> bool {
        let ModuleOptions { aliases, reserved, built_ins, .. } = &self.options;
        let mut names = aliases.iter().map(|alias| &alias.name).chain(reserved);
        built_ins.has_namespace(namespace) || names.any(|name| name.eq_ignore_ascii_case(namespace))
    }

    /// As [`ModuleRegister::open`], in the background. Notes in the plan if the operator vouches for the build.
    pub(crate) async fn open_in_background(
        self: &Arc<Self>,
        plan: &mut PluginPlan,
        is_path_configured: bool,
        is_vouched_for: bool,
    ) -> Result<Candidate, ModuleError> {
        let (host, of_plan) = (Arc::clone(self), plan.clone());
        let library =
            run_at_low_priority(move || host.check_and_copy(&of_plan, is_path_configured, &YieldBetweenPieces)).await?;
        let checked = self.check_candidate(library, plan, is_vouched_for)?;
        if is_vouched_for {
            plan.vouched = Some(checked.library.hash.clone());
        }
        self.open_checked_in_background(checked, plan).await
    }

    /// As [`ModuleRegister::open_checked`], in the background.
    pub(crate) async fn open_checked_in_background(
        self: &Arc<Self>,
        checked: CheckedCandidate,
        plan: &PluginPlan,
    ) -> Result<Candidate, ModuleError> {
        let (host, plan, isolation) = (Arc::clone(self), plan.clone(), checked.isolation);
        let open = move || host.open_checked(checked, &plan, Duration::MAX);
        match isolation {
            Isolation::InProcess => run_at_low_priority(open).await,
            // A process permanently inherits the priority of the thread that starts it; at low priority its callers
            // would wait longer after every operation.
            Isolation::Process => blocking(open).await,
        }
    }

    /// The requested capabilities that a plugin is granted. If its settings name capabilities, it is granted those.
    /// Otherwise a built-in or vouched-for plugin is granted all, and a foreign one none.
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

    /// Starts an instance without routing to it. Blocks; waits at most `timeout` for a process.
    pub(crate) fn begin(
        &self,
        plan: &PluginPlan,
        candidate: Candidate,
        handover: &[u8],
        timeout: Duration,
    ) -> Result<(Build, Arc<RunningPlugin>), ModuleError> {
        let Candidate { build, opened } = candidate;
        let granted = self.grants(plan, &build.manifest, build.trust);
        Self::log_grants(plan, &build, &granted);
        let wanted = build.manifest.capabilities.iter().copied();
        let missing = wanted.filter(|capability| !granted.contains(capability)).collect();
        let limits = plan.storage.unwrap_or(self.options.space_limits);
        let space = Space::new(&plan.name, limits, self.options.spaces.as_ref());
        let in_force = plan.limits.in_force(build.isolation, self.options.processes.as_ref());
        let mut ineffective = plan.limits.ineffective(build.isolation);
        for warning in &ineffective {
            tracing::warn!(module = plan.name, "{warning}");
        }
        let namespace = &build.manifest.namespace;
        if self.options.unserved.contains(namespace) {
            ineffective.push(format!("this chain has no namespace {namespace}: no call reaches the module"));
        }
        let start = PluginStart {
            name: &plan.name,
            timeout,
            granted,
            bus: self.bus.clone(),
            router: self.router.downgrade(),
            space,
            memory: self.options.memory.clone(),
            log_lines: plan.limits.log_lines,
            settings: &plan.settings,
            handover,
        };
        let instance = opened.start(start).map_err(|failure| ModuleError::NotStarted {
            path: build.library.path.clone(),
            failure,
            missing,
        })?;
        let (name, manifest) = (plan.name.clone(), build.manifest.clone());
        let running = self.router.running_plugin(name, manifest, instance, in_force, ineffective);
        Ok((build, running))
    }

    /// Starts a plugin and routes its namespace to it. Blocks; waits at most `timeout` for a process.
    pub(crate) fn enable(&self, plan: &PluginPlan, candidate: Candidate, timeout: Duration) -> Result<(), ModuleError> {
        {
            let modules = self.modules.lock();
            modules.check_not_shutting_down()?;
            modules.check_namespace(&plan.name, &candidate.build)?;
            modules.check_needs(&plan.name, &candidate.build.manifest)?;
        }
        let (build, running) = self.begin(plan, candidate, &[], timeout)?;
        self.put(plan, build, State::Enabled(running))
    }

    /// Records a module's state, and updates the routes.
    ///
    /// # Errors
    /// [`ModuleError::ShuttingDown`]: nothing has changed, and nothing would stop a plugin that is added now. The plugin of
    /// `state` is dropped, unless the caller has it too.
    pub(crate) fn put(&self, plan: &PluginPlan, build: Build, state: State) -> Result<(), ModuleError> {
        let granted = self.grants(plan, &build.manifest, build.trust);
        let mut modules = self.modules.lock();
        if let Err(error) = modules.check_not_shutting_down() {
            // The plugin's own code runs when it is dropped.
            drop(modules);
            return Err(error);
        }
        let is_path_configured = match modules.by_name.get(&plan.name) {
            Some(known) => known.is_path_configured && known.plan.path == plan.path,
            None => false,
        };
        let module = KnownPlugin { plan: plan.clone(), is_path_configured, build: Some(build), granted, state };
        let started = module.running().map(Arc::clone);
        let before = modules.by_name.insert(plan.name.clone(), module);
        self.router.replace(RouteTable::of(modules.running()));
        // Stop the old one first: two that follow the chain would write to the same storage.
        if let Some(before) = before.as_ref().and_then(KnownPlugin::running) {
            before.end_background();
        }
        if let Some(started) = started {
            started.begin_background();
        }
        Ok(())
    }
}
