//! The OpenRPC document.

use serde_json::{Map, Value, json};
use tenon_sdk::prelude::*;

/// The version of the OpenRPC specification that the document follows.
const OPENRPC_VERSION: &str = "1.3.2";

/// Describes the methods and subscriptions of these namespaces.
///
/// # Errors
/// When a plugin's own description is not a JSON object, which the host checks at load.
pub(crate) fn build(namespaces: &[NamespaceInfo], client_version: &str) -> Result<Value, Failure> {
    let mut methods = Vec::new();
    for namespace in namespaces {
        for method in &namespace.methods {
            methods.push(describe(method)?);
        }
        if !namespace.subscriptions.is_empty() {
            methods.extend(describe_subscriptions(namespace));
        }
    }
    Ok(json!({
        "openrpc": OPENRPC_VERSION,
        "info": { "title": "Tenon JSON-RPC", "version": client_version },
        "methods": methods,
    }))
}

fn describe(method: &MethodInfo) -> Result<Value, Failure> {
    let mut description: Map<String, Value> = serde_json::from_str(&method.description)
        .map_err(|error| Failure::server(format!("the description of {} is malformed: {error}", method.name)))?;
    description.insert("name".to_owned(), method.name.clone().into());
    // A plugin may omit parameters and result; the document must have them.
    description.entry("params").or_insert_with(|| json!([]));
    description.entry("result").or_insert_with(|| json!({ "name": "result", "schema": {} }));
    Ok(Value::Object(description))
}

/// `<namespace>_subscribe` and `_unsubscribe` are served by the front-ends for every namespace with kinds.
fn describe_subscriptions(namespace: &NamespaceInfo) -> [Value; 2] {
    let NamespaceInfo { namespace, subscriptions, .. } = namespace;
    let id = json!({ "name": "subscription", "required": true, "schema": { "type": "string" } });
    [
        json!({
            "name": format!("{namespace}_subscribe"),
            "summary": "Opens a subscription; its items arrive as notifications. WebSocket and Unix socket only.",
            "paramStructure": "by-position",
            "params": [
                { "name": "kind", "required": true, "schema": { "type": "string", "enum": subscriptions } },
                { "name": "options", "required": false, "schema": { "type": ["object", "array", "string", "boolean", "null"] } },
            ],
            "result": id.clone(),
        }),
        json!({
            "name": format!("{namespace}_unsubscribe"),
            "summary": "Ends a subscription.",
            "paramStructure": "by-position",
            "params": [id],
            "result": { "name": "result", "schema": { "type": "boolean" } },
        }),
    ]
}
