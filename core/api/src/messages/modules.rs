//! The modules of the node and their life cycle. Topics `0x0700..`.
//!
//! A module is a plugin, known by the name that its settings have, or an actor of the node. States:
//! `loaded → enabled ⇄ disabled → unloaded`, and `failed`.

use serde::{Deserialize, Serialize};

use super::{SpaceUsage, event, request};
use crate::Capability;

/// What a module is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ModuleKind {
    /// A library that serves a namespace.
    #[default]
    Plugin,
    /// A part of the node: it is there from the start to the end, and some can be stopped meanwhile.
    Actor,
}

impl ModuleKind {
    /// The word for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plugin => "plugin",
            Self::Actor => "actor",
        }
    }
}

/// Where a module stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ModuleState {
    /// Checked and known, not started yet.
    Loaded,
    /// Serves.
    Enabled,
    /// Was stopped; can be enabled again.
    Disabled,
    /// Is not known any more.
    Unloaded,
    /// Did not start or fell over; the reason stands beside it.
    Failed,
}

impl ModuleState {
    /// The word for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loaded => "loaded",
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
            Self::Unloaded => "unloaded",
            Self::Failed => "failed",
        }
    }
}

/// A module and what it does at the moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleInfo {
    /// The name that operations take.
    pub name: String,
    /// Where it stands.
    pub state: ModuleState,
    /// Why it failed; none in the other states.
    pub reason: Option<String>,
    /// The namespace that it serves; empty when its library could not be read.
    pub namespace: String,
    /// `<major>.<minor>` of the namespace.
    pub version: String,
    /// What the plugin calls itself.
    pub plugin: String,
    /// Compiler and build.
    pub built_with: String,
    /// The file that was named.
    pub path: String,
    /// SHA-256 of the file that was loaded, hex.
    pub content_hash: String,
    /// `in-process` or `process`.
    pub isolation: String,
    /// The process that it runs in, when that is not the node's own.
    pub process: Option<u32>,
    /// Whether the node refuses to start without it.
    pub is_required: bool,
    /// What it asks to be granted.
    pub wanted: Vec<Capability>,
    /// What it was granted: what the host lets it use of the bus.
    pub granted: Vec<Capability>,
    /// Namespaces that it needs.
    pub needs: Vec<String>,
    /// Enabled modules that need it.
    pub needed_by: Vec<String>,
    /// Its methods.
    pub methods: Vec<String>,
    /// Its subscription kinds.
    pub subscriptions: Vec<String>,
    /// Calls that run in it now.
    pub running_calls: u64,
    /// Subscriptions that are open now.
    pub open_subscriptions: u64,
    /// Plugin or actor.
    pub kind: ModuleKind,
    /// What it does, in a sentence; empty for plugins, whose methods say it.
    pub summary: String,
    /// Why it cannot be stopped; none when it can.
    pub fixed: Option<String>,
    /// The bounds that hold for it.
    pub limits: ModuleLimits,
    /// What went wrong in it since it was enabled.
    pub faults: ModuleFaults,
    /// What should protect the node from it and does not, a line each: limits that do not hold where it runs, rules that
    /// this kernel does not know.
    pub warnings: Vec<String>,
    /// How full its own storage is; none when it may not store anything and has not.
    pub storage: Option<SpaceUsage>,
    /// When it is disabled again because it was enabled for a time, seconds after 1970.
    pub until: Option<u64>,
    /// Whose its build is: `built-in`, `vouched` or `foreign`; empty while it has none, and of parts of the node.
    pub trust: String,
}

/// The bounds that hold for a module; none where there is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleLimits {
    /// Memory of its own, bytes.
    pub memory: Option<u64>,
    /// Processor time of one call, milliseconds.
    pub call_millis: Option<u64>,
    /// Calls at a time.
    pub calls: Option<u64>,
    /// How many times a minute its process is started again before it has failed for good.
    pub restarts: Option<u32>,
    /// Lines a second in the log, on average.
    pub log_lines: Option<u32>,
}

/// What went wrong in a module since it was enabled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleFaults {
    /// How many times it was started again after it ended by itself.
    pub restarts: u64,
    /// Why it ended by itself last.
    pub last_end: Option<String>,
    /// Calls that ended in a panic or with their process, or whose answer was none.
    pub failed_calls: u64,
    /// Handlers that panicked: of calls and subscriptions of a plugin, of requests that a part of the node answers.
    pub panics: u64,
    /// Calls that were refused because too many ran in it.
    pub refused_calls: u64,
    /// Lines that were left out of the log because it wrote too many.
    pub omitted_lines: u64,
}

/// All modules, plugins and actors, each kind by name (`admin_listModules`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListModules;
request!(ListModules => Vec<ModuleInfo>, topic 0x0700, schema 4, Administer);

/// One module (`admin_moduleInfo`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetModule {
    /// Its name.
    pub name: String,
}
request!(GetModule => ModuleInfo, topic 0x0701, schema 4, Administer);

/// One step of a module's life. Answered when the step is done as a whole or has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeModule {
    /// Its name; for [`ModuleChange::Load`] the name that it gets.
    pub name: String,
    /// The step.
    pub change: ModuleChange,
    /// Whether the answer waits until what ran in the old instance has ended. A module that changes itself must not.
    pub waits_for_drain: bool,
}
request!(ChangeModule => ModuleReport, topic 0x0702, schema 3, Administer);

/// Reads the settings again, as the node read them at its start, and takes over what changed and needs no restart: the
/// plugins and what the front-ends show (`admin_reloadSettings`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadSettings {
    /// The namespace whose call asks; none when no module does. If its own module is among those that change, the answer
    /// does not wait until what ran in the old instance has ended, which would be waiting for itself.
    pub asked_by: Option<String>,
}
request!(ReloadSettings => SettingsReport, topic 0x0703, schema 2, Administer);

/// What reading the settings again has brought about. All is empty when the settings are those of before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingsReport {
    /// What was done to modules, in the order in which it was done.
    pub modules: Vec<ModuleReport>,
    /// What could not be done.
    pub failures: Vec<ModuleFailure>,
    /// What else the settings say than before, and counts from now on: what the front-ends show.
    pub changed: Vec<ChangedSetting>,
    /// What the settings say otherwise than at the start of the node and cannot be taken over: it counts from the next start on.
    pub needs_restart: Vec<ChangedSetting>,
}

/// A module that could not be brought to what the settings say about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleFailure {
    /// Its name.
    pub module: String,
    /// Why.
    pub reason: String,
}

/// A setting that the running node does not have as the settings have it by now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedSetting {
    /// Its name, such as `http.port`.
    pub key: String,
    /// What it was at the start, written as in a settings file; none when it was not set.
    pub running: Option<String>,
    /// What it will be.
    pub wanted: Option<String>,
}

/// What an operator permits a module that is loaded or replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleTerms {
    /// What it is granted of what it asks for; without it what the settings grant, or what it was granted before.
    pub grant: Option<Vec<Capability>>,
    /// Whether the operator vouches for this very build: it then runs as a built-in one does.
    pub is_vouched_for: bool,
}

impl ModuleTerms {
    /// Nothing beyond what the settings permit.
    pub const NONE: Self = Self { grant: None, is_vouched_for: false };
}

/// A step of a module's life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModuleChange {
    /// Makes it known.
    Load {
        /// Its library; without it the plugin folders are searched for the name.
        path: Option<String>,
        /// JSON text of its own settings; without it the node's settings file decides.
        settings: Option<String>,
        /// Whether it is enabled at once.
        is_enabled: bool,
        /// What the operator permits.
        terms: ModuleTerms,
    },
    /// Starts it.
    Enable,
    /// Takes its methods away, waits for what runs, and stops it.
    Disable,
    /// Puts another build of the same namespace in its place, without a gap.
    Replace {
        /// The library; without it the module's own path, read again.
        path: Option<String>,
        /// JSON text of its own settings; without it they stay.
        settings: Option<String>,
        /// What the operator permits.
        terms: ModuleTerms,
    },
    /// Disables it if it is enabled, and forgets it.
    Unload,
    /// Starts it for a time, after which it is disabled, also when the node was started again meanwhile. One that is enabled
    /// for a time already gets a new end.
    EnableFor {
        /// How long, seconds.
        seconds: u64,
    },
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ModuleOperation {
    /// It became known.
    Load,
    /// It was started.
    Enable,
    /// It was stopped.
    Disable,
    /// Another build took its place.
    Replace,
    /// It was forgotten.
    Unload,
    /// It did not start or fell over by itself.
    Fail,
}

impl ModuleOperation {
    /// The word for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Enable => "enable",
            Self::Disable => "disable",
            Self::Replace => "replace",
            Self::Unload => "unload",
            Self::Fail => "fail",
        }
    }
}

/// A build of a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleBuild {
    /// `<major>.<minor>` of the namespace.
    pub version: String,
    /// SHA-256 of the library, hex.
    pub content_hash: String,
}

/// What an operation found and did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleReport {
    /// The module's name.
    pub module: String,
    /// What was done.
    pub operation: ModuleOperation,
    /// Where the module stands now.
    pub state: ModuleState,
    /// Why it failed; none otherwise.
    pub reason: Option<String>,
    /// The build before.
    pub old: Option<ModuleBuild>,
    /// The build now.
    pub new: Option<ModuleBuild>,
    /// Calls that ran in the old instance when it was taken away.
    pub running_calls: u64,
    /// Of them, those that did not end within the grace period and were cancelled.
    pub cancelled_calls: u64,
    /// Calls that could not be ended: the old instance stays in memory until they end.
    pub abandoned_calls: u64,
    /// Subscriptions that went on in the new instance.
    pub kept_subscriptions: u64,
    /// Subscriptions that were closed with a notice.
    pub closed_subscriptions: u64,
    /// How long what ran took to end, microseconds.
    pub drain_micros: u64,
    /// How long the operation took in all, microseconds.
    pub total_micros: u64,
    /// Whether the old instance was still draining when this was written.
    pub is_draining: bool,
    /// Enabled modules that may ask for what was stopped, or started; an error that names the module answers them while
    /// it is stopped.
    pub dependants: Vec<String>,
}

/// A module's state changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleChanged {
    /// What was done.
    pub report: ModuleReport,
}
event!(ModuleChanged, topic 0x8007, schema 2, Administer);
