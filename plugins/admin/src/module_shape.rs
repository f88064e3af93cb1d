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
    isolation: String,
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
    trust: String,
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
            // An actor runs in the node's process, and one that cannot be stopped is required.
            ModuleDetails::Actor(actor) => {
                let library = LibraryDetails { isolation: "in-process".to_owned(), ..LibraryDetails::default() };
                let is_required = actor.fixed.is_some();
                (PluginDetails { library: Some(library), is_required, ..PluginDetails::default() }, actor)
            }
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
            isolation: library.isolation,
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
            trust: library.trust,
            health: actor.health,
            mailbox: actor.mailbox,
            address: actor.address,
            connections: actor.connections,
        }
    }
}
