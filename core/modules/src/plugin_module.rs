//! A plugin as operators see it, in all its states.

use std::{
    collections::{BTreeSet, VecDeque},
    path::PathBuf,
    sync::Arc,
};

use tenon_api::{
    Capability,
    messages::{LibraryDetails, ModuleBuild, ModuleDetails, ModuleInfo, ModuleState, PluginDetails},
    shown_name,
};

use tenon_host::{CheckedLibrary, Manifest, RunningPlugin, Trust};
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
    LacksSpace {
        reason: String,
        /// Whether its own library did not fit.
        is_own: bool,
    },
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
            State::Failed(_) | State::LacksSpace { .. } => ModuleState::Failed,
        }
    }

    /// Whether it starts once there is space on the disk.
    pub(crate) const fn lacks_space(&self) -> bool {
        matches!(self.state, State::LacksSpace { .. })
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
                State::Failed(reason) | State::LacksSpace { reason, .. } => Some(reason.clone()),
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
    pub(crate) by_name: std::collections::BTreeMap<String, KnownPlugin>,
    pub(crate) is_shutting_down: bool,
}

impl KnownPlugins {
    /// The library copies of modules.
    pub(crate) fn copies(&self) -> Vec<PathBuf> {
        self.by_name.values().filter_map(|module| Some(module.build.as_ref()?.library.copy.clone())).collect()
    }

    /// Whether the error of a module that did not start ends once there is space on the disk.
    pub(crate) fn is_for_lack_of_space(&self, name: &str, error: &ModuleError) -> bool {
        // Only a module that lacks space itself: two that wait for a third would wait for each other too.
        let lacks_own = |module: &KnownPlugin| matches!(module.state, State::LacksSpace { is_own: true, .. });
        let others_lack_space = || self.by_name.iter().any(|(other, module)| other != name && lacks_own(module));
        error.lacks_space() || (matches!(error, ModuleError::Needs { .. }) && others_lack_space())
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
        for need in &manifest.needs {
            let found = self.running().map(|running| &running.manifest).find(|other| other.namespace == need.namespace);
            let problem = match found {
                Some(other) if need.is_met_by(&other.version) => continue,
                Some(other) => format!("{} {} is enabled", other.namespace, other.version),
                None => self.why_not_enabled(&need.namespace, &manifest.namespace),
            };
            return Err(ModuleError::Needs { name: name.to_owned(), need: need.to_string(), problem });
        }
        Ok(())
    }

    fn why_not_enabled(&self, namespace: &str, needed_by: &str) -> String {
        let Some((name, module)) = self.by_name.iter().find(|(_, module)| module.namespace() == Some(namespace)) else {
            return "no module serves that namespace".to_owned();
        };
        match self.way(namespace, needed_by) {
            Some(way) => format!("they need each other, a cycle: {needed_by} → {}", way.join(" → ")),
            None => format!("module {name} is {}", module.state().name()),
        }
    }

    /// The shortest path of needs from one namespace to another, both included, if there is one.
    fn way<'a>(&'a self, from: &'a str, to: &'a str) -> Option<Vec<&'a str>> {
        let mut ways = VecDeque::from([vec![from]]);
        let mut seen = BTreeSet::from([from]);
        while let Some(way) = ways.pop_front() {
            let last = *way.last()?;
            if last == to {
                return Some(way);
            }
            let build = self
                .by_name
                .values()
                .find(|module| module.namespace() == Some(last))
                .and_then(|module| module.build.as_ref());
            for need in build.iter().flat_map(|build| &build.manifest.needs) {
                if seen.insert(&need.namespace) {
                    ways.push_back(way.iter().copied().chain([need.namespace.as_str()]).collect());
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
