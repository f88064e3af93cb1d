//! A module as shown by `admin_listModules` and `admin_moduleInfo`: one object with the same members for plugins and
//! actors, empty where they do not apply.

use serde::Serialize;
use tenon_sdk::prelude::*;

/// A module in JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModuleShape {
    name: String,
    state: ModuleState,
    reason: Option<String>,
    namespace: String,
    version: String,
    plugin: String,
    built_with: String,
    path: String,
    content_hash: String,
    /// Empty for a library that has not been opened.
    isolation: &'static str,
    process: Option<u32>,
    is_required: bool,
    wanted: Vec<Capability>,
    granted: Vec<Capability>,
    needs: Vec<String>,
    needed_by: Vec<String>,
    methods: Vec<String>,
    subscriptions: Vec<String>,
    running_calls: u64,
    open_subscriptions: u64,
    kind: ModuleKind,
    summary: String,
    fixed: Option<String>,
    limits: ModuleLimits,
    faults: ModuleFaults,
    warnings: Vec<String>,
    storage: Option<SpaceUsage>,
    until: Option<u64>,
    /// Empty for an actor, and for a library that has not been opened.
    trust: &'static str,
    health: Option<ActorHealth>,
    mailbox: Option<MailboxUse>,
    address: Option<String>,
    connections: Option<u64>,
}

impl From<ModuleInfo> for ModuleShape {
    fn from(info: ModuleInfo) -> Self {
        let kind = info.kind();
        let ModuleInfo { name, state, reason, needs, needed_by, faults, until, details } = info;
        let (plugin, actor) = match details {
            ModuleDetails::Plugin(plugin) => (plugin, ActorDetails::default()),
            // An actor that cannot be stopped is required.
            ModuleDetails::Actor(actor) => {
                (PluginDetails { is_required: actor.fixed.is_some(), ..PluginDetails::default() }, actor)
            }
        };
        let (isolation, trust) = match (&plugin.library, kind) {
            (Some(library), _) => (library.isolation.name(), library.trust.name()),
            (None, ModuleKind::Plugin) => ("", ""),
            // It runs in the node's process.
            (None, ModuleKind::Actor) => (Isolation::InProcess.name(), ""),
        };
        let library = plugin.library.unwrap_or_default();
        Self {
            name,
            state,
            reason,
            namespace: library.namespace,
            version: library.version,
            plugin: library.plugin,
            built_with: library.built_with,
            path: plugin.path,
            content_hash: library.content_hash,
            isolation,
            process: plugin.process,
            is_required: plugin.is_required,
            wanted: library.wanted,
            granted: plugin.granted,
            needs,
            needed_by,
            methods: library.methods,
            subscriptions: library.subscriptions,
            running_calls: plugin.running_calls,
            open_subscriptions: plugin.open_subscriptions,
            kind,
            summary: actor.summary,
            fixed: actor.fixed,
            limits: plugin.limits,
            faults,
            warnings: plugin.warnings,
            storage: plugin.storage,
            until,
            trust,
            health: actor.health,
            mailbox: actor.mailbox,
            address: actor.address,
            connections: actor.connections,
        }
    }
}
