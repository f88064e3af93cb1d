//! A module as `admin_listModules` and `admin_moduleInfo` return it.
//!
//! Their JSON has the same members for plugins and actors, empty where they do not apply ([`FlatModule`]). [`Module`] has
//! the members of its kind only.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned, de::IntoDeserializer as _};
use tenon_api::Capability;
use tenon_api::messages::{
    ActorDetails, ActorHealth, Isolation, LibraryDetails, MailboxUse, ModuleDetails, ModuleFaults, ModuleInfo,
    ModuleKind, ModuleLimits, ModuleState, PluginDetails, SpaceUsage, Trust,
};

/// A module: a plugin or an actor of the node.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Deref, Serialize, Deserialize)]
#[serde(from = "FlatModule", into = "FlatModule")]
pub struct Module(pub ModuleInfo);

/// The JSON form of a module. Name, kind and state are required, so that a short answer cannot decode to a long list in
/// memory; other members may be missing in the answer of another version. `plugins/admin/src/module_shape.rs` writes the
/// same members in the same order, which a test there checks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FlatModule {
    name: String,
    state: ModuleState,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    plugin: String,
    #[serde(default)]
    built_with: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    content_hash: String,
    #[serde(default, with = "or_empty")]
    isolation: Option<Isolation>,
    #[serde(default)]
    process: Option<u32>,
    #[serde(default)]
    is_required: bool,
    #[serde(default)]
    wanted: Vec<Capability>,
    #[serde(default)]
    granted: Vec<Capability>,
    #[serde(default)]
    needs: Vec<String>,
    #[serde(default)]
    needed_by: Vec<String>,
    #[serde(default)]
    methods: Vec<String>,
    #[serde(default)]
    subscriptions: Vec<String>,
    #[serde(default)]
    running_calls: u64,
    #[serde(default)]
    open_subscriptions: u64,
    kind: ModuleKind,
    #[serde(default)]
    summary: String,
    #[serde(default)]
    fixed: Option<String>,
    #[serde(default)]
    limits: ModuleLimits,
    #[serde(default)]
    faults: ModuleFaults,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    storage: Option<SpaceUsage>,
    #[serde(default)]
    until: Option<u64>,
    #[serde(default, with = "or_empty")]
    trust: Option<Trust>,
    #[serde(default)]
    health: Option<ActorHealth>,
    #[serde(default)]
    mailbox: Option<MailboxUse>,
    #[serde(default)]
    address: Option<String>,
    #[serde(default)]
    connections: Option<u64>,
}

impl From<FlatModule> for Module {
    fn from(flat: FlatModule) -> Self {
        let details = match flat.kind {
            ModuleKind::Plugin => ModuleDetails::Plugin(PluginDetails {
                path: flat.path,
                // The members of a library that has not been opened are empty.
                library: (flat.isolation.is_some() || flat.trust.is_some()).then(|| LibraryDetails {
                    namespace: flat.namespace,
                    version: flat.version,
                    plugin: flat.plugin,
                    built_with: flat.built_with,
                    content_hash: flat.content_hash,
                    isolation: flat.isolation.unwrap_or_default(),
                    trust: flat.trust.unwrap_or_default(),
                    wanted: flat.wanted,
                    methods: flat.methods,
                    subscriptions: flat.subscriptions,
                }),
                process: flat.process,
                is_required: flat.is_required,
                granted: flat.granted,
                running_calls: flat.running_calls,
                open_subscriptions: flat.open_subscriptions,
                limits: flat.limits,
                warnings: flat.warnings,
                storage: flat.storage,
            }),
            ModuleKind::Actor => ModuleDetails::Actor(ActorDetails {
                summary: flat.summary,
                fixed: flat.fixed,
                health: flat.health,
                mailbox: flat.mailbox,
                address: flat.address,
                connections: flat.connections,
            }),
        };
        let FlatModule { name, state, reason, needs, needed_by, faults, until, .. } = flat;
        Self(ModuleInfo { name, state, reason, needs, needed_by, faults, until, details })
    }
}

impl From<Module> for FlatModule {
    fn from(module: Module) -> Self {
        let kind = module.kind();
        let ModuleInfo { name, state, reason, needs, needed_by, faults, until, details } = module.0;
        let (plugin, actor) = match details {
            ModuleDetails::Plugin(plugin) => (plugin, ActorDetails::default()),
            // As the node shows it: an actor that cannot be stopped is required.
            ModuleDetails::Actor(actor) => {
                (PluginDetails { is_required: actor.fixed.is_some(), ..PluginDetails::default() }, actor)
            }
        };
        let (isolation, trust) = match (&plugin.library, kind) {
            (Some(library), _) => (Some(library.isolation), Some(library.trust)),
            (None, ModuleKind::Plugin) => (None, None),
            (None, ModuleKind::Actor) => (Some(Isolation::InProcess), None),
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

/// `None` is an empty text.
mod or_empty {
    use super::*;

    pub(super) fn serialize<S: Serializer, T: Serialize>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => value.serialize(serializer),
            None => serializer.serialize_str(""),
        }
    }

    pub(super) fn deserialize<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        D: Deserializer<'de>,
        T: DeserializeOwned,
    {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() { Ok(None) } else { T::deserialize(text.into_deserializer()).map(Some) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_list_of_empty_modules_is_refused() {
        let error = serde_json::from_str::<Vec<Module>>("[{},{}]").unwrap_err().to_string();
        assert!(error.contains("missing field `name`"), "{error}");

        let minimal = r#"[{"name":"eth","kind":"plugin","state":"enabled"}]"#;
        assert_eq!(serde_json::from_str::<Vec<Module>>(minimal).unwrap()[0].name, "eth");
    }

    /// The members that a module of either kind has, with the values of one that is neither opened nor stoppable.
    fn flat(members: Value) -> Value {
        let mut flat = json!({ "name": "mine", "state": "enabled", "reason": null, "namespace": "", "version": "",
            "plugin": "", "builtWith": "", "path": "", "contentHash": "", "isolation": "", "process": null,
            "isRequired": false, "wanted": [], "granted": [], "needs": [], "neededBy": [], "methods": [],
            "subscriptions": [], "runningCalls": 0, "openSubscriptions": 0, "kind": "plugin", "summary": "",
            "fixed": null, "limits": ModuleLimits::default(), "faults": ModuleFaults::default(), "warnings": [],
            "storage": null, "until": null, "trust": "", "health": null, "mailbox": null, "address": null,
            "connections": null });
        flat.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        flat
    }

    #[test]
    fn both_kinds_and_an_unopened_library_keep_their_json() {
        let opened = flat(json!({ "namespace": "eth", "version": "1.0", "contentHash": "ab", "isolation": "process",
            "trust": "built-in", "wanted": ["ReadChain"], "granted": ["ReadChain"], "methods": ["eth_call"],
            "process": 7, "isRequired": true }));
        let actor = flat(json!({ "kind": "actor", "isolation": "in-process", "summary": "serves", "isRequired": true,
            "fixed": "it is needed", "health": "running", "mailbox": { "waiting": 1, "capacity": 2 } }));

        for json in [&opened, &actor, &flat(json!({ "state": "failed", "reason": "no file" }))] {
            let module: Module = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(&serde_json::to_value(&module).unwrap(), json);
        }

        let module = |json: &Value| serde_json::from_value::<Module>(json.clone()).unwrap().0.details;
        let ModuleDetails::Plugin(plugin) = module(&opened) else { panic!("{opened}") };
        let library = plugin.library.unwrap();
        assert_eq!((library.isolation, library.trust), (Isolation::Process, Trust::BuiltIn));
        let ModuleDetails::Plugin(unopened) = module(&flat(json!({}))) else { panic!("a plugin") };
        assert_eq!(unopened.library, None);
        assert!(matches!(module(&actor), ModuleDetails::Actor(actor) if actor.summary == "serves"));
    }

    #[test]
    fn an_unknown_isolation_is_refused() {
        let error = serde_json::from_value::<Module>(flat(json!({ "isolation": "elsewhere" }))).unwrap_err();
        assert!(error.to_string().contains("unknown variant `elsewhere`"), "{error}");
    }
}
