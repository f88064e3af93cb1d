//! A plugin as operators see it, in all its states.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::PathBuf,
    sync::Arc,
};

use tenon_api::{
    Capability,
    messages::{LibraryDetails, ModuleBuild, ModuleDetails, ModuleInfo, ModuleState, PluginDetails},
    shown_name,
};

use tenon_host::{CheckedLibrary, Manifest, NamespaceRequirement, RunningPlugin, Trust};
use tenon_isolation::Isolation;

use crate::{ModuleError, PluginPlan};

/// An opened library that was checked, with its manifest.
#[derive(Clone, Debug)]
pub(crate) struct Build {
    pub(crate) library: CheckedLibrary,
    pub(crate) manifest: Manifest,
    pub(crate) isolation: Isolation,
    pub(crate) trust: Trust,
}

impl Build {
    pub(crate) fn describe(&self) -> ModuleBuild {
        ModuleBuild { version: self.manifest.version.clone(), content_hash: self.library.hash.clone() }
    }

    fn details(&self) -> LibraryDetails {
        let Self { library, manifest, isolation, trust } = self;
        LibraryDetails {
            namespace: manifest.namespace.clone(),
            version: manifest.version.clone(),
            plugin: manifest.name.clone(),
            built_with: manifest.built_with.clone(),
            content_hash: library.hash.clone(),
            isolation: *isolation,
            trust: *trust,
            wanted: manifest.capabilities.clone(),
            methods: manifest.methods.iter().map(|method| method.name.clone()).collect(),
            subscriptions: manifest.subscriptions.clone(),
        }
    }
}

/// State of a module.
pub(crate) enum State {
    Loaded,
    Enabled(Arc<RunningPlugin>),
    Disabled,
    Failed(String),
    /// Failed at the start of the node, because there was no space for the copy of its library or of one that it needs.
    LacksSpace(SpaceLack),
}

/// Why a plugin has not started yet that starts once there is space on the disk.
pub(crate) struct SpaceLack {
    /// The error, and what it waits for.
    pub(crate) reason: String,
    /// Whether its own library could not be copied. Otherwise it needs namespaces of such plugins.
    pub(crate) own_copy_did_not_fit: bool,
    /// The namespace that it will serve, if that is known before its library is opened.
    pub(crate) expected_namespace: Option<String>,
}

impl SpaceLack {
    /// Of a plugin whose own library could not be copied. A built-in plugin's name is its namespace, in lower case.
    pub(crate) fn of_own_copy(name: &str, error: &str, is_built_in: bool) -> Self {
        tracing::warn!(module = name, "the module starts once there is space on the disk");
        Self {
            reason: format!("{error}; it starts once there is space on the disk"),
            own_copy_did_not_fit: true,
            expected_namespace: is_built_in.then(|| name.to_owned()),
        }
    }

    /// Of a plugin that needs a namespace of one of these modules.
    pub(crate) fn of_needs(name: &str, error: &str, modules: &[String]) -> Self {
        let modules = modules.join(", ");
        tracing::warn!(
            module = name,
            modules,
            "the module waits for others that start once there is space on the disk"
        );
        Self {
            reason: format!("{error}; it waits until there is space on the disk for {modules}"),
            own_copy_did_not_fit: false,
            expected_namespace: None,
        }
    }
}

/// The needs of a plugin, while others may lack space.
pub(crate) enum NeedsStatus {
    /// Enabled modules serve all of them.
    Met,
    /// Modules that lack space may serve the unmet needs later.
    AwaitSpace { error: ModuleError, modules: Vec<String> },
    /// Free space will not change this.
    Unmet(ModuleError),
}

/// A plugin that the host knows.
pub(crate) struct KnownPlugin {
    /// The current plan: the settings', with the operator's later choices.
    pub(crate) plan: PluginPlan,
    /// Whether the path comes from the settings, and so may lie outside of the plugin folders.
    pub(crate) is_path_configured: bool,
    /// `None` if the library has not been opened: the module was disabled from the start, or could not be read.
    pub(crate) build: Option<Build>,
    pub(crate) granted: Vec<Capability>,
    pub(crate) state: State,
}

impl KnownPlugin {
    pub(crate) fn running(&self) -> Option<&Arc<RunningPlugin>> {
        match &self.state {
            State::Enabled(running) => Some(running),
            _ => None,
        }
    }

    /// The namespace, once the library has been opened.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.build.as_ref().map(|build| build.manifest.namespace.as_str())
    }

    pub(crate) const fn state(&self) -> ModuleState {
        match self.state {
            State::Loaded => ModuleState::Loaded,
            State::Enabled(_) => ModuleState::Enabled,
            State::Disabled => ModuleState::Disabled,
            State::Failed(_) | State::LacksSpace(_) => ModuleState::Failed,
        }
    }

    /// Whether it starts once there is space on the disk.
    pub(crate) const fn lacks_space(&self) -> bool {
        matches!(self.state, State::LacksSpace(_))
    }

    /// Whether its own library could not be copied for lack of space.
    pub(crate) const fn own_copy_did_not_fit(&self) -> bool {
        matches!(self.state, State::LacksSpace(SpaceLack { own_copy_did_not_fit: true, .. }))
    }

    /// Whether it may meet this need once it has started.
    fn may_meet(&self, need: &NamespaceRequirement) -> bool {
        match (&self.build, &self.state) {
            (Some(Build { manifest, .. }), _) => {
                manifest.namespace == need.namespace && need.is_met_by(&manifest.version)
            }
            (None, State::LacksSpace(SpaceLack { expected_namespace: Some(expected), .. })) => {
                expected.eq_ignore_ascii_case(&need.namespace)
            }
            // Unknown until its library is opened.
            _ => true,
        }
    }

    /// All facts about it except its storage use, which requires the database.
    pub(crate) fn info(&self, needed_by: Vec<String>) -> ModuleInfo {
        let needs = self.build.iter().flat_map(|build| &build.manifest.needs).map(ToString::to_string).collect();
        let running = self.running();
        // A process that keeps ending is not restarted; the operator has to act.
        let failure = running.and_then(|running| running.instance.failure());
        ModuleInfo {
            name: self.plan.name.clone(),
            state: if failure.is_some() { ModuleState::Failed } else { self.state() },
            reason: match &self.state {
                State::Failed(reason) | State::LacksSpace(SpaceLack { reason, .. }) => Some(reason.clone()),
                _ => failure,
            },
            needs,
            needed_by,
            faults: running.map(|running| running.faults()).unwrap_or_default(),
            until: None,
            details: ModuleDetails::Plugin(self.details()),
        }
    }

    fn details(&self) -> PluginDetails {
        let running = self.running();
        PluginDetails {
            path: self.plan.path.display().to_string(),
            library: self.build.as_ref().map(Build::details),
            process: running.and_then(|running| running.instance.process()),
            is_required: self.plan.is_required,
            granted: self.granted.clone(),
            running_calls: running.map_or(0, |running| running.gate.calls()),
            open_subscriptions: running.map_or(0, |running| running.gate.streams()),
            limits: running.map(|running| running.limits).unwrap_or_default(),
            warnings: running.map(|running| running.warnings.clone()).unwrap_or_default(),
            storage: None,
        }
    }
}

/// All modules, by name.
#[derive(Default)]
pub(crate) struct KnownPlugins {
    pub(crate) by_name: BTreeMap<String, KnownPlugin>,
    pub(crate) is_shutting_down: bool,
}

impl KnownPlugins {
    /// Refuses changes while the node stops.
    pub(crate) const fn check_not_shutting_down(&self) -> Result<(), ModuleError> {
        if self.is_shutting_down { Err(ModuleError::ShuttingDown) } else { Ok(()) }
    }

    /// The library copies of modules.
    pub(crate) fn copies(&self) -> Vec<PathBuf> {
        self.by_name.values().filter_map(|module| Some(module.build.as_ref()?.library.copy.clone())).collect()
    }

    /// Whether a plugin's needs are met, or may be once there is space on the disk.
    pub(crate) fn needs_status(&self, name: &str, manifest: &Manifest) -> NeedsStatus {
        let startable = self.startable_with_space(name);
        let mut awaited: Option<(&NamespaceRequirement, BTreeSet<String>)> = None;
        for need in self.unmet_needs(manifest) {
            let providers = startable.iter().filter(|(_, module)| module.may_meet(need));
            let providers: BTreeSet<String> = providers.map(|(other, _)| (*other).to_owned()).collect();
            if providers.is_empty() {
                return NeedsStatus::Unmet(self.needs_error(name, manifest, need));
            }
            awaited.get_or_insert_with(|| (need, BTreeSet::new())).1.extend(providers);
        }
        match awaited {
            None => NeedsStatus::Met,
            Some((first, modules)) => NeedsStatus::AwaitSpace {
                error: self.needs_error(name, manifest, first),
                modules: modules.into_iter().collect(),
            },
        }
    }

    /// The plugins other than `name` that can start once there is space: those whose own copies did not fit, and those
    /// that need only namespaces of such plugins and of enabled ones.
    fn startable_with_space(&self, name: &str) -> BTreeMap<&str, &KnownPlugin> {
        let others = || self.by_name.iter().filter(|(other, _)| *other != name);
        let own = others().filter(|(_, module)| module.own_copy_did_not_fit());
        let mut startable: BTreeMap<&str, &KnownPlugin> = own.map(|(other, module)| (other.as_str(), module)).collect();
        // In rounds, because one may need another one that waits. Two that need each other are never added.
        loop {
            let is_next = |module: &KnownPlugin| {
                let may_be_met =
                    |need: &NamespaceRequirement| startable.values().any(|provider| provider.may_meet(need));
                let build = module.build.as_ref().filter(|_| module.lacks_space());
                build.is_some_and(|build| self.unmet_needs(&build.manifest).all(may_be_met))
            };
            let next = others().find(|(other, module)| !startable.contains_key(other.as_str()) && is_next(module));
            let Some((other, module)) = next else { return startable };
            startable.insert(other, module);
        }
    }

    pub(crate) fn get(&self, name: &str) -> Result<&KnownPlugin, ModuleError> {
        self.by_name.get(name).ok_or_else(|| self.unknown(name))
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Result<&mut KnownPlugin, ModuleError> {
        if !self.by_name.contains_key(name) {
            return Err(self.unknown(name));
        }
        self.by_name.get_mut(name).ok_or(ModuleError::Crashed)
    }

    fn unknown(&self, name: &str) -> ModuleError {
        let known: Vec<_> = self.by_name.keys().map(String::as_str).collect();
        ModuleError::Unknown { name: shown_name(name), known: known.join(", ") }
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = &Arc<RunningPlugin>> {
        self.by_name.values().filter_map(KnownPlugin::running)
    }

    /// Enabled modules, other than `name`, that need its namespace.
    pub(crate) fn needing(&self, name: &str) -> Vec<String> {
        let Some(namespace) = self.by_name.get(name).and_then(KnownPlugin::namespace) else { return Vec::new() };
        let needs =
            |running: &Arc<RunningPlugin>| running.manifest.needs.iter().any(|need| need.namespace == namespace);
        self.by_name
            .iter()
            .filter(|(other, module)| *other != name && module.running().is_some_and(needs))
            .map(|(other, _)| other.clone())
            .collect()
    }

    /// Refuses a namespace that another module serves, or will serve once started.
    pub(crate) fn check_namespace(&self, name: &str, build: &Build) -> Result<(), ModuleError> {
        let namespace = build.manifest.namespace.as_str();
        let claims = |module: &KnownPlugin| {
            matches!(module.state, State::Loaded | State::Enabled(_)) && module.namespace() == Some(namespace)
        };
        match self.by_name.iter().find(|(other, module)| *other != name && claims(module)) {
            None => Ok(()),
            Some((other, _)) => Err(ModuleError::NamespaceTaken {
                path: build.library.path.clone(),
                namespace: namespace.to_owned(),
                by: other.clone(),
            }),
        }
    }

    /// Refuses a build if no enabled module serves a namespace that it needs, in a sufficient version.
    pub(crate) fn check_needs(&self, name: &str, manifest: &Manifest) -> Result<(), ModuleError> {
        self.unmet_needs(manifest).next().map_or(Ok(()), |need| Err(self.needs_error(name, manifest, need)))
    }

    /// The manifest of the enabled module that serves a namespace.
    fn enabled(&self, namespace: &str) -> Option<&Manifest> {
        self.running().map(|running| &running.manifest).find(|manifest| manifest.namespace == namespace)
    }

    fn unmet_needs<'a>(&'a self, manifest: &'a Manifest) -> impl Iterator<Item = &'a NamespaceRequirement> {
        let is_met = move |need: &NamespaceRequirement| {
            self.enabled(&need.namespace).is_some_and(|other| need.is_met_by(&other.version))
        };
        manifest.needs.iter().filter(move |need| !is_met(need))
    }

    fn needs_error(&self, name: &str, manifest: &Manifest, need: &NamespaceRequirement) -> ModuleError {
        let problem = match self.enabled(&need.namespace) {
            Some(other) => format!("{} {} is enabled", other.namespace, other.version),
            None => self.why_not_enabled(&need.namespace, &manifest.namespace),
        };
        ModuleError::Needs { name: name.to_owned(), need: need.to_string(), problem }
    }

    fn why_not_enabled(&self, namespace: &str, needed_by: &str) -> String {
        let Some((name, module)) = self.by_name.iter().find(|(_, module)| module.namespace() == Some(namespace)) else {
            return "no module serves that namespace".to_owned();
        };
        match self.path_of_needs(namespace, needed_by) {
            Some(path) => format!("they need each other, a cycle: {needed_by} → {}", path.join(" → ")),
            None => format!("module {name} is {}", module.state().name()),
        }
    }

    /// The shortest path of needs from one namespace to another, both included, if there is one.
    fn path_of_needs<'a>(&'a self, from: &'a str, to: &'a str) -> Option<Vec<&'a str>> {
        let mut paths = VecDeque::from([vec![from]]);
        let mut seen = BTreeSet::from([from]);
        while let Some(path) = paths.pop_front() {
            let last = *path.last()?;
            if last == to {
                return Some(path);
            }
            let build = self
                .by_name
                .values()
                .find(|module| module.namespace() == Some(last))
                .and_then(|module| module.build.as_ref());
            for need in build.iter().flat_map(|build| &build.manifest.needs) {
                if seen.insert(&need.namespace) {
                    paths.push_back(path.iter().copied().chain([need.namespace.as_str()]).collect());
                }
            }
        }
        None
    }

    /// Refuses to remove a namespace that enabled modules need, or to replace it by an unsuitable version.
    pub(crate) fn check_needed(&self, name: &str, new: Option<&Manifest>) -> Result<(), ModuleError> {
        let mut by = self.needing(name);
        if let Some(new) = new {
            by.retain(|other| {
                let manifest = self.by_name.get(other).and_then(KnownPlugin::running).map(|running| &running.manifest);
                let mut needs = manifest.into_iter().flat_map(|manifest| &manifest.needs);
                needs.any(|need| need.namespace == new.namespace && !need.is_met_by(&new.version))
            });
        }
        if by.is_empty() {
            return Ok(());
        }
        Err(ModuleError::NeededBy { name: name.to_owned(), by: by.join(", ") })
    }
}
