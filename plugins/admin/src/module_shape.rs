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

#[cfg(test)]
mod tests {
    use tenon_ipc_client::Module;

    use super::*;

    /// A plugin with a value in each member. There is no `..` here, so that a new member must be added.
    fn full_plugin() -> PluginDetails {
        let texts = |text: &str| vec![text.to_owned()];
        PluginDetails {
            path: "/plugins/eth.so".to_owned(),
            library: Some(LibraryDetails {
                namespace: "eth".to_owned(),
                version: "1.0".to_owned(),
                plugin: "tenon-plugin-eth".to_owned(),
                built_with: "rustc 1.90".to_owned(),
                content_hash: "ab".to_owned(),
                isolation: Isolation::Process,
                trust: Trust::Vouched,
                wanted: vec![Capability::ReadChain, Capability::Sign],
                methods: texts("eth_call"),
                subscriptions: texts("logs"),
            }),
            process: Some(7),
            is_required: true,
            granted: vec![Capability::ReadChain],
            running_calls: 1,
            open_subscriptions: 2,
            limits: ModuleLimits {
                memory: Some(3),
                call_millis: Some(4),
                calls: Some(5),
                restarts: Some(6),
                log_lines: Some(7),
            },
            warnings: texts("its files are not restricted"),
            storage: Some(SpaceUsage { records: 8, bytes: 9, max_records: 10, max_bytes: 11 }),
        }
    }

    /// An actor with a value in each member.
    fn full_actor() -> ActorDetails {
        ActorDetails {
            summary: "keeps blocks".to_owned(),
            fixed: Some("it is needed".to_owned()),
            health: Some(ActorHealth::Running),
            mailbox: Some(MailboxUse { waiting: 2, capacity: 1024 }),
            address: Some("http://127.0.0.1:8545".to_owned()),
            connections: Some(3),
        }
    }

    /// A module with these details, and a value in each other member.
    fn module(details: ModuleDetails) -> ModuleInfo {
        ModuleInfo {
            name: "mine".to_owned(),
            state: ModuleState::Failed,
            reason: Some("no file".to_owned()),
            needs: vec!["storage".to_owned()],
            needed_by: vec!["web3".to_owned()],
            faults: ModuleFaults {
                restarts: 1,
                last_end: Some("it fell over".to_owned()),
                failed_calls: 2,
                panics: 3,
                refused_calls: 4,
                omitted_lines: 5,
            },
            until: Some(1_800_000_000),
            details,
        }
    }

    /// The typed client has a structure of its own for this JSON, because a plugin imports the SDK only.
    #[test]
    fn the_typed_client_reads_a_module_of_either_kind_and_writes_the_same_json() {
        let unopened = PluginDetails { path: "/plugins/eth.so".to_owned(), ..PluginDetails::default() };
        let details = [
            ModuleDetails::Plugin(full_plugin()),
            ModuleDetails::Plugin(unopened),
            ModuleDetails::Plugin(PluginDetails {
                library: Some(LibraryDetails::default()),
                ..PluginDetails::default()
            }),
            ModuleDetails::Actor(full_actor()),
            ModuleDetails::Actor(ActorDetails { fixed: None, ..full_actor() }),
            ModuleDetails::Actor(ActorDetails::default()),
        ];
        for info in details.map(module) {
            let written = serde_json::to_string(&ModuleShape::from(info.clone())).expect("a module is JSON");

            let read: Module = serde_json::from_str(&written).expect("the client reads it");

            assert_eq!(serde_json::to_string(&read).expect("a module is JSON"), written);
            assert_eq!(read.0, info);
        }
    }
}
