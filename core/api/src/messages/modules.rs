//! The modules of the node and their life cycle. Topics `0x0700..`.
//!
//! A module is a plugin, named as in the settings, or an actor of the node. States: `loaded → enabled ⇄ disabled →
//! unloaded`, and `failed`.

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

use super::{SpaceUsage, event, request};
use crate::Capability;

/// Kind of a module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum ModuleKind {
    /// A library that serves a namespace.
    #[default]
    Plugin,
    /// A part of the node that always exists; some can be stopped.
    Actor,
}

impl ModuleKind {
    /// The name for display.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// State of a module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum ModuleState {
    /// Checked and registered, not started yet.
    #[default]
    Loaded,
    /// Running.
    Enabled,
    /// Stopped; can be enabled again.
    Disabled,
    /// Removed from the register.
    Unloaded,
    /// Failed to start or ended by itself; see the reason.
    Failed,
}

impl ModuleState {
    /// The name for display.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A module and its current condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleInfo {
    /// The name in operations.
    pub name: String,
    /// Its state.
    pub state: ModuleState,
    /// Why it failed; `None` in the other states.
    pub reason: Option<String>,
    /// Names of its dependencies: namespaces for a plugin, other actors for an actor.
    pub needs: Vec<String>,
    /// Enabled modules that need it.
    pub needed_by: Vec<String>,
    /// Its faults since it was enabled.
    pub faults: ModuleFaults,
    /// When it is disabled again, if it was enabled for a limited time, seconds since 1970.
    pub until: Option<u64>,
    /// Details that depend on its kind.
    pub details: ModuleDetails,
}

impl ModuleInfo {
    /// Its kind.
    pub const fn kind(&self) -> ModuleKind {
        match self.details {
            ModuleDetails::Plugin(_) => ModuleKind::Plugin,
            ModuleDetails::Actor(_) => ModuleKind::Actor,
        }
    }

    /// Details of a plugin; `None` for an actor.
    pub const fn plugin(&self) -> Option<&PluginDetails> {
        match &self.details {
            ModuleDetails::Plugin(details) => Some(details),
            ModuleDetails::Actor(_) => None,
        }
    }
}

/// Details of a module that depend on its kind.
#[allow(clippy::large_enum_variant, reason = "a node has a few dozen modules, most of them plugins")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModuleDetails {
    /// Of a plugin.
    Plugin(PluginDetails),
    /// Of an actor.
    Actor(ActorDetails),
}

/// Details of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginDetails {
    /// The path of its library, as given.
    pub path: String,
    /// Its library; `None` if it has not been opened, or could not be read.
    pub library: Option<LibraryDetails>,
    /// Its process, if it is not the node's own.
    pub process: Option<u32>,
    /// Whether the node refuses to start without it.
    pub is_required: bool,
    /// Capabilities that it was granted on the bus.
    pub granted: Vec<Capability>,
    /// Number of running calls.
    pub running_calls: u64,
    /// Number of open subscriptions.
    pub open_subscriptions: u64,
    /// Its limits.
    pub limits: ModuleLimits,
    /// Protections that are not in force, one per line: limits that do not apply where it runs, rules that this kernel
    /// does not support.
    pub warnings: Vec<String>,
    /// Use of its own storage; `None` if it may not store anything and has not.
    pub storage: Option<SpaceUsage>,
}

/// Details of a plugin's library, once it has been opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryDetails {
    /// The namespace that it serves.
    pub namespace: String,
    /// `<major>.<minor>` of the namespace.
    pub version: String,
    /// The name in its manifest.
    pub plugin: String,
    /// Compiler and build.
    pub built_with: String,
    /// SHA-256 of the file that was loaded, hex.
    pub content_hash: String,
    /// Where it runs.
    pub isolation: Isolation,
    /// Trust in this build.
    pub trust: Trust,
    /// Capabilities that it asks for.
    pub wanted: Vec<Capability>,
    /// Its methods.
    pub methods: Vec<String>,
    /// Its subscription kinds.
    pub subscriptions: Vec<String>,
}

/// Where a plugin runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Isolation {
    /// In the node's own process: half a microsecond per call. A crash of its code can end the node.
    InProcess,
    /// In its own process: some 50 microseconds per call, bounded and replaceable.
    #[default]
    Process,
}

impl Isolation {
    /// Its name in settings and `moduleInfo`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The isolation with this [name](Isolation::name).
    pub fn from_name(name: &str) -> Option<Self> {
        name.parse().ok()
    }
}

/// The trust in a plugin's build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Trust {
    /// Built with this node: its hash is in the list of built-in plugins.
    BuiltIn,
    /// The operator vouches for it.
    Vouched,
    /// Any other: it runs in a sandbox, with only the capabilities that the operator grants by name.
    #[default]
    Foreign,
}

impl Trust {
    /// Its name in `moduleInfo`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Details of an actor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorDetails {
    /// Its purpose, in one sentence.
    pub summary: String,
    /// Why it cannot be stopped; `None` if it can.
    pub fixed: Option<String>,
    /// Whether it works.
    pub health: Option<ActorHealth>,
    /// Its mailbox; `None` if it has none, or is stopped.
    pub mailbox: Option<MailboxUse>,
    /// Address at which it listens; `None` if it does not listen.
    pub address: Option<String>,
    /// Number of open connections; `None` if it is not a front-end.
    pub connections: Option<u64>,
}

/// Whether an actor works, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum ActorHealth {
    /// It works.
    Running,
    /// It failed, and is restarted after a pause.
    Restarting,
    /// It is stopped.
    Stopped,
    /// It failed for good.
    Failed,
}

impl ActorHealth {
    /// The name for display.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Use of an actor's mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxUse {
    /// Number of waiting messages.
    pub waiting: u64,
    /// Its capacity. Each sender may add one message beyond it.
    pub capacity: u64,
}

/// The limits of a module; `None` means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleLimits {
    /// Memory of its own, bytes.
    pub memory: Option<u64>,
    /// Processor time of one call, milliseconds.
    pub call_millis: Option<u64>,
    /// Maximum number of concurrent calls.
    pub calls: Option<u64>,
    /// Maximum restarts of its process per minute before it has failed for good.
    pub restarts: Option<u32>,
    /// Log lines per second, on average.
    pub log_lines: Option<u32>,
}

/// Faults of a module since it was enabled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleFaults {
    /// Number of restarts after it ended by itself.
    pub restarts: u64,
    /// Why it last ended by itself.
    pub last_end: Option<String>,
    /// Calls that ended in a panic, with their process, or without an answer.
    pub failed_calls: u64,
    /// Panics in handlers: of a plugin's calls and subscriptions, or of requests to a part of the node.
    pub panics: u64,
    /// Calls refused because too many were running.
    pub refused_calls: u64,
    /// Lines left out of the log because it wrote too many.
    pub omitted_lines: u64,
}

/// All modules, plugins and actors, each kind by name (`admin_listModules`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListModules;
request!(ListModules => Vec<ModuleInfo>, topic 0x0700, schema 7, Administer);

/// One module (`admin_moduleInfo`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetModule {
    /// Its name.
    pub name: String,
}
request!(GetModule => ModuleInfo, topic 0x0701, schema 7, Administer);

/// One step of a module's life cycle. Answered once the step is complete or has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeModule {
    /// Its name; for [`ModuleChange::Load`] its new name.
    pub name: String,
    /// The step.
    pub change: ModuleChange,
    /// Whether the answer waits until all calls in the old instance have ended. A module that changes itself must not
    /// set it.
    pub waits_for_drain: bool,
}
request!(ChangeModule => ModuleReport, topic 0x0702, schema 3, Administer);

/// Reads the settings again, as at the start, and applies the changes that need no restart: to plugins and to the
/// exposure of the front-ends (`admin_reloadSettings`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadSettings {
    /// The namespace of the calling module, if any. If that module itself changes, the answer does not wait for the
    /// calls in its old instance, which include this one.
    pub asked_by: Option<String>,
}
request!(ReloadSettings => SettingsReport, topic 0x0703, schema 2, Administer);

/// Effects of reading the settings again. Empty if they have not changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingsReport {
    /// Changes of modules, in order.
    pub modules: Vec<ModuleReport>,
    /// Changes that failed.
    pub failures: Vec<ModuleFailure>,
    /// Other applied changes: the exposure of front-ends.
    pub changed: Vec<ChangedSetting>,
    /// Settings that differ from those at the start and need a restart to take effect.
    pub needs_restart: Vec<ChangedSetting>,
}

/// A module to which its settings could not be applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleFailure {
    /// Its name.
    pub module: String,
    /// Why.
    pub reason: String,
}

/// A setting whose value in the running node differs from the settings now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedSetting {
    /// Its name, such as `http.port`.
    pub key: String,
    /// Value at the start, as in a settings file; `None` if it was not set.
    pub running: Option<String>,
    /// New value.
    pub wanted: Option<String>,
}

/// Permissions that an operator gives a module on loading or replacing it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleTerms {
    /// Capabilities granted out of those it asks for; by default those of the settings, or those granted before.
    pub grant: Option<Vec<Capability>>,
    /// Whether the operator vouches for this exact build: it then runs like a built-in one.
    pub is_vouched_for: bool,
}

impl ModuleTerms {
    /// Nothing beyond what the settings permit.
    pub const NONE: Self = Self { grant: None, is_vouched_for: false };
}

/// A step of a module's life cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModuleChange {
    /// Registers it.
    Load {
        /// Its library; by default the plugin folders are searched for the name.
        path: Option<String>,
        /// JSON text of its own settings; by default those of the node's settings file.
        settings: Option<String>,
        /// Whether to enable it at once.
        is_enabled: bool,
        /// The operator's permissions.
        terms: ModuleTerms,
    },
    /// Starts it.
    Enable,
    /// Removes its methods, waits for running calls, and stops it.
    Disable,
    /// Replaces it by another build of the same namespace, without interruption.
    Replace {
        /// The library; by default the module's own path, read again.
        path: Option<String>,
        /// JSON text of its own settings; by default unchanged.
        settings: Option<String>,
        /// The operator's permissions.
        terms: ModuleTerms,
    },
    /// Disables it if it is enabled, and removes it from the register.
    Unload,
    /// Starts it for a limited time and then disables it, even if the node was restarted meanwhile. For one that is
    /// already enabled for a time, sets a new end.
    EnableFor {
        /// Duration, seconds.
        seconds: u64,
    },
}

/// The operation performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum ModuleOperation {
    /// It was registered.
    Load,
    /// It was started.
    Enable,
    /// It was stopped.
    Disable,
    /// It was replaced by another build.
    Replace,
    /// It was removed from the register.
    Unload,
    /// It failed to start or ended by itself.
    Fail,
}

impl ModuleOperation {
    /// The name for display.
    pub fn name(self) -> &'static str {
        self.into()
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

/// Result of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleReport {
    /// The module's name.
    pub module: String,
    /// The operation performed.
    pub operation: ModuleOperation,
    /// The module's state now.
    pub state: ModuleState,
    /// Why it failed; `None` otherwise.
    pub reason: Option<String>,
    /// The previous build.
    pub old: Option<ModuleBuild>,
    /// The current build.
    pub new: Option<ModuleBuild>,
    /// Calls that were running in the old instance when its methods were removed.
    pub running_calls: u64,
    /// Those of them that were cancelled because they did not end within the grace period.
    pub cancelled_calls: u64,
    /// Calls that could not be ended: the old instance stays in memory until they end.
    pub abandoned_calls: u64,
    /// Subscriptions that continue in the new instance.
    pub kept_subscriptions: u64,
    /// Subscriptions that were closed with a notice.
    pub closed_subscriptions: u64,
    /// Time until the running calls ended, microseconds.
    pub drain_micros: u64,
    /// Duration of the whole operation, microseconds.
    pub total_micros: u64,
    /// Whether the old instance was still draining at the time of this report.
    pub is_draining: bool,
    /// Enabled modules that may call the one that was stopped or started; while it is stopped they get an error that
    /// names it.
    pub dependants: Vec<String>,
}

impl ModuleReport {
    /// Creates the report of an operation that took no time, and affected no build, call, subscription or other module.
    pub fn new(module: &str, operation: ModuleOperation, state: ModuleState) -> Self {
        Self {
            module: module.to_owned(),
            operation,
            state,
            reason: None,
            old: None,
            new: None,
            running_calls: 0,
            cancelled_calls: 0,
            abandoned_calls: 0,
            kept_subscriptions: 0,
            closed_subscriptions: 0,
            drain_micros: 0,
            total_micros: 0,
            is_draining: false,
            dependants: Vec::new(),
        }
    }
}

/// A module's state changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleChanged {
    /// The operation's report.
    pub report: ModuleReport,
}
event!(ModuleChanged, topic 0x8007, schema 2, Administer);
