//! The `rpc` namespace: the namespaces that this node serves to the caller (`docs/spec/rpc-eth.md` 16), also as an
//! OpenRPC document.
//!
//! Everything comes from the tables of the loaded plugins; it caches the last documents with their sources. It never
//! reveals a namespace that the caller's endpoint does not expose, nor a method that the endpoint refuses.

#![deny(unsafe_code)]

mod document;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tenon_sdk::{output::to_json, prelude::*, shapes::JsonWriter};

/// Maximum number of cached documents: one per endpoint.
const MAX_DOCUMENTS: usize = 4;

#[derive(Default)]
struct Rpc {
    /// Newest last. A document takes milliseconds to write, and a batch could request it a thousand times. Nothing
    /// awaits under the lock.
    documents: Mutex<VecDeque<Arc<Document>>>,
}

/// A document and its sources.
struct Document {
    namespaces: Vec<NamespaceInfo>,
    client_version: String,
    text: String,
}

impl Rpc {
    fn documents(&self) -> MutexGuard<'_, VecDeque<Arc<Document>>> {
        self.documents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The document for these sources, cached or written now.
    fn document(&self, namespaces: Vec<NamespaceInfo>, client_version: String) -> Result<Arc<Document>, Failure> {
        let has_same_sources =
            |known: &&Arc<Document>| known.namespaces == namespaces && known.client_version == client_version;
        if let Some(known) = self.documents().iter().find(has_same_sources) {
            return Ok(Arc::clone(known));
        }
        let json = to_json(&document::build(&namespaces, &client_version)?)?;
        let text = String::from_utf8(json).map_err(|error| Failure::server(error.to_string()))?;
        let written = Arc::new(Document { namespaces, client_version, text });
        let mut documents = self.documents();
        if documents.len() >= MAX_DOCUMENTS {
            documents.pop_front();
        }
        documents.push_back(Arc::clone(&written));
        Ok(written)
    }
}

impl Plugin for Rpc {
    fn start(_host: Host, _settings: &str, _handover: &[u8]) -> Result<Self, Failure> {
        Ok(Self::default())
    }
}

fn table() -> Table<Rpc> {
    Table::new("rpc", "1.0")
        .capabilities(&[Capability::ReadNode])
        .read("rpc_modules", &[], "The namespaces that this endpoint exposes, with their versions.", modules)
        .read("rpc_discover", &[], "The methods that this endpoint exposes, as an OpenRPC document.", discover)
        .results(&[
            ("rpc_modules", r#"{"type":"object","additionalProperties":{"type":"string"}}"#),
            ("rpc_discover", r#"{"type":"object","required":["openrpc","info","methods"]}"#),
        ])
}

tenon_sdk::export!(Rpc, table);

async fn modules(context: Context<Rpc>) -> Result<BTreeMap<String, String>, Failure> {
    let mut namespaces = context.call(ListNamespaceVersions).await?;
    namespaces.retain(|of| is_visible(&context, &of.namespace));
    let names = namespaces.into_iter().flat_map(|of| {
        let NamespaceVersion { namespace, version, aliases } = of;
        std::iter::once(namespace).chain(aliases).map(move |name| (name, version.clone()))
    });
    Ok(names.collect())
}

async fn discover(context: Context<Rpc>) -> Result<JsonWriter, Failure> {
    let mut namespaces = context.call(ListNamespaces).await?;
    namespaces.retain(|of| is_visible(&context, &of.namespace));
    namespaces.iter_mut().for_each(|of| remove_refused(&context, of));
    let client_version = context.call(GetClientVersion).await?;
    Ok(JsonWriter::from_json(context.document(namespaces, client_version)?.text.clone()))
}

/// Removes methods that the caller's endpoint refuses under any of their names.
fn remove_refused(context: &Context<Rpc>, of: &mut NamespaceInfo) {
    let NamespaceInfo { namespace, aliases, methods, subscriptions, .. } = of;
    let is_refused = |name: &str| {
        let rest = name.strip_prefix(namespace.as_str()).unwrap_or_default();
        context.is_refused(name) || aliases.iter().any(|alias| context.is_refused(&format!("{alias}{rest}")))
    };
    methods.retain(|method| !is_refused(&method.name));
    if is_refused(&format!("{namespace}_subscribe")) {
        subscriptions.clear();
    }
}

/// Whether the caller may see a namespace. A caller of this method always sees `rpc`, because the endpoint serves it.
fn is_visible(context: &Context<Rpc>, namespace: &str) -> bool {
    namespace == "rpc" || context.is_exposed(namespace)
}

#[cfg(test)]
mod tests {
    use tenon_sdk::testing::FakeHost;

    use super::*;

    fn namespace(name: &str, subscriptions: &[&str]) -> NamespaceInfo {
        let description = r#"{"summary":"Does.","params":[],"result":{"name":"result","schema":{}}}"#.to_owned();
        NamespaceInfo {
            namespace: name.to_owned(),
            version: "1.0".to_owned(),
            methods: vec![MethodInfo { name: format!("{name}_do"), description }],
            subscriptions: subscriptions.iter().map(|kind| (*kind).to_owned()).collect(),
            aliases: Vec::new(),
        }
    }

    fn versions(namespaces: &[NamespaceInfo]) -> Vec<NamespaceVersion> {
        let version = |of: &NamespaceInfo| {
            let NamespaceInfo { namespace, version, aliases, .. } = of.clone();
            NamespaceVersion { namespace, version, aliases }
        };
        namespaces.iter().map(version).collect()
    }

    fn host() -> FakeHost {
        let served = || vec![namespace("admin", &[]), namespace("eth", &["logs", "newHeads"]), namespace("rpc", &[])];
        FakeHost::new()
            .answer(move |_: ListNamespaces| Ok(served()))
            .answer(move |_: ListNamespaceVersions| Ok(versions(&served())))
            .answer(|_: GetClientVersion| Ok("Tenon/v0.1.0".to_owned()))
    }

    fn ask(host: &FakeHost, method: &str) -> serde_json::Value {
        serde_json::from_str(&host.call_method(&table(), &Arc::new(Rpc::default()), method, "[]").unwrap()).unwrap()
    }

    #[test]
    fn modules_lists_the_exposed_namespaces_and_always_rpc() {
        let all = ask(&host(), "rpc_modules");
        let some = ask(&host().exposing(&["eth", "net"]), "rpc_modules");

        assert_eq!(all, serde_json::json!({"admin": "1.0", "eth": "1.0", "rpc": "1.0"}));
        assert_eq!(some, serde_json::json!({"eth": "1.0", "rpc": "1.0"}));
    }

    #[test]
    fn modules_lists_every_name_of_an_exposed_namespace() {
        let host = host().answer(|_: ListNamespaceVersions| {
            let aliases = vec!["XDPoS".to_owned()];
            Ok(versions(&[NamespaceInfo { aliases, ..namespace("Consensus", &[]) }]))
        });

        let both = serde_json::json!({"Consensus": "1.0", "XDPoS": "1.0"});
        assert_eq!(ask(&host, "rpc_modules"), both);
        assert_eq!(ask(&host.clone().exposing(&["Consensus"]), "rpc_modules"), both);
        assert_eq!(ask(&host.exposing(&["eth"]), "rpc_modules"), serde_json::json!({}));
    }

    #[test]
    fn the_document_omits_methods_that_the_endpoint_refuses_by_any_name() {
        let host = host().answer(|_: ListNamespaces| {
            let native = NamespaceInfo { aliases: vec!["XDPoS".to_owned()], ..namespace("Consensus", &[]) };
            Ok(vec![native, namespace("eth", &["logs"]), namespace("net", &["peers"])])
        });
        let names = |exposed: &[&str]| {
            let document = ask(&host.clone().exposing(exposed), "rpc_discover");
            let methods = document["methods"].as_array().unwrap().clone();
            methods.iter().map(|method| method["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };

        let refusing = names(&["Consensus", "XDPoS", "eth", "net", "!XDPoS_d*", "!eth_do", "!net_subscribe"]);

        assert_eq!(refusing, ["eth_subscribe", "eth_unsubscribe", "net_do"]);
    }

    #[test]
    fn the_document_describes_exposed_methods_and_subscriptions_only() {
        let document = ask(&host().exposing(&["eth"]), "rpc_discover");

        let methods = document["methods"].as_array().unwrap();
        let names: Vec<_> = methods.iter().map(|method| method["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["eth_do", "eth_subscribe", "eth_unsubscribe", "rpc_do"]);
        assert_eq!(methods[0]["summary"], "Does.");
        assert_eq!(methods[1]["params"][0]["schema"]["enum"], serde_json::json!(["logs", "newHeads"]));
        assert_eq!(document["info"]["version"], "Tenon/v0.1.0");
        assert!(document["openrpc"].as_str().unwrap().starts_with("1."));
    }

    #[test]
    fn a_document_is_written_again_only_if_its_sources_change() {
        let rpc = Rpc::default();
        let first = rpc.document(vec![namespace("eth", &[])], "Tenon/1".to_owned()).unwrap();

        let again = rpc.document(vec![namespace("eth", &[])], "Tenon/1".to_owned()).unwrap();
        let others: Vec<_> =
            (0..MAX_DOCUMENTS).map(|number| rpc.document(vec![], number.to_string()).unwrap().text.clone()).collect();
        let rebuilt = rpc.document(vec![namespace("eth", &[])], "Tenon/1".to_owned()).unwrap();

        assert!(Arc::ptr_eq(&first, &again) && !Arc::ptr_eq(&first, &rebuilt));
        assert_eq!(first.text, rebuilt.text);
        assert!(others.iter().all(|other| *other != first.text));
        assert_eq!(rpc.documents().len(), MAX_DOCUMENTS);
    }
}
