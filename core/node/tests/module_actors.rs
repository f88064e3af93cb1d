//! Parts of a running node that are stopped and started like plugins.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod support;

use serde_json::{Value, json};
use support::{RunningNode, module, module_well, run_well, text, until};

fn refusal(folder: &str, arguments: &[&str]) -> String {
    let output = module(folder, arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

fn ask(node: &RunningNode, method: &str, params: &Value) -> Value {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    serde_json::from_str(&node.ask_socket(&request)).unwrap()
}

fn height(node: &RunningNode) -> Value {
    ask(node, "eth_blockNumber", &json!([]))["result"].clone()
}

/// Sends a transfer and returns its hash.
fn send(node: &RunningNode) -> Value {
    let accounts = ask(node, "eth_accounts", &json!([]))["result"].clone();
    let transfer = json!([{"from": accounts[0], "to": accounts[1], "value": "0x1"}]);
    let answer = ask(node, "eth_sendTransaction", &transfer);
    assert!(answer["result"].is_string(), "{answer}");
    answer["result"].clone()
}

fn wait_for_receipt(node: &RunningNode, hash: &Value) -> Value {
    until("the receipt", || {
        let receipt = ask(node, "eth_getTransactionReceipt", &json!([hash]))["result"].clone();
        (!receipt.is_null()).then_some(receipt)
    })
}

fn state(folder: &str, name: &str) -> Value {
    serde_json::from_str(&module_well(folder, &["info", name, "--json"])).unwrap()
}

#[test]
fn without_sealing_transactions_stay_pending_and_with_it_again_they_get_a_block() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let node = RunningNode::start_dev(&["--datadir", folder]);
    wait_for_receipt(&node, &send(&node));
    let before = height(&node);

    let report = module_well(folder, &["disable", "sealing"]);
    let hash = send(&node);
    // Another operation on another module takes long enough for a sealer to make its block.
    module_well(folder, &["replace", "net"]);
    assert!(report.contains("sealing      disable  disabled"), "{report}");
    assert_eq!(height(&node), before);
    let pending = ask(&node, "eth_getTransactionByHash", &json!([hash]))["result"].clone();
    assert_eq!(pending["blockNumber"], Value::Null, "{pending}");
    assert_eq!(module_well(folder, &["disable", "sealing"]), "sealing is disabled already\n");

    // The choice survives a restart, and so does the transaction.
    assert_eq!(node.signal("TERM"), Some(0));
    let node = RunningNode::start_dev(&["--datadir", folder]);
    assert_eq!(state(folder, "sealing")["state"], "disabled");
    assert_eq!(height(&node), before);

    module_well(folder, &["enable", "sealing"]);
    let receipt = wait_for_receipt(&node, &hash);
    assert_eq!(receipt["status"], "0x1");
    assert_ne!(height(&node), before);
    assert!(refusal(folder, &["enable", "sealing"]).contains("module sealing is enabled already"));
}

#[test]
fn a_stopped_pool_is_named_in_errors_and_its_dependants_are_notified() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let node = RunningNode::start_dev(&["--datadir", folder]);
    let accounts = ask(&node, "eth_accounts", &json!([]))["result"].clone();
    let transfer = json!([{"from": accounts[0], "to": accounts[1], "value": "0x1", "nonce": "0x0", "gas": "0x5208"}]);

    let report: Value = serde_json::from_str(&module_well(folder, &["disable", "pool", "--json"])).unwrap();
    let refused = ask(&node, "eth_sendTransaction", &transfer);
    let balance = ask(&node, "eth_getBalance", &json!([accounts[0], "latest"]));

    assert_eq!((&report["operation"], &report["state"]), (&json!("disable"), &json!("disabled")));
    let told: Vec<_> = report["dependants"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(told.contains(&"sealing") && told.contains(&"eth"), "{told:?}");
    assert_eq!(refused["error"]["message"], "module pool is stopped; it can be enabled again", "{refused}");
    assert!(balance["result"].is_string(), "{balance}");

    module_well(folder, &["enable", "pool"]);
    let hash = ask(&node, "eth_sendTransaction", &transfer)["result"].clone();
    assert_eq!(wait_for_receipt(&node, &hash)["status"], "0x1");
}

#[test]
fn the_shown_settings_include_the_modules_that_the_node_runs_now() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let config = |arguments: &[&str]| run_well(&[&["config", "--dev", "--datadir", folder], arguments].concat());
    assert!(!config(&[]).contains("runs now"));
    let node = RunningNode::start_dev(&["--datadir", folder]);
    module_well(folder, &["disable", "net"]);

    let (text, json) = (config(&[]), config(&["--json"]));

    assert!(text.contains("runs now, whatever stands above") && text.contains("# net      "), "{text}");
    let running = serde_json::from_str::<Value>(&json).unwrap()["running"].clone();
    let net = running.as_array().unwrap().iter().find(|info| info["name"] == "net").unwrap().clone();
    assert_eq!(net["state"], "disabled");
    drop(node);
}

#[test]
fn parts_that_cannot_be_stopped_give_the_reason_and_none_can_be_replaced_or_unloaded() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let _node = RunningNode::start_dev(&["--datadir", folder]);

    let list = module_well(folder, &["list"]);
    let names = module_well(folder, &["names"]);
    let parts = "accounts\ndevice\nexecution\nhttp\nmetrics\npool\nsealing\nsocket\nstorage\nwebsocket\n";
    assert!(names.starts_with("admin\n") && names.ends_with(&format!("\nweb3\n{parts}")), "{names}");
    for (name, why) in [
        ("storage", "every read needs it"),
        ("execution", "only it writes the chain"),
        ("socket", "without it nothing could enable it again"),
    ] {
        let refused = refusal(folder, &["disable", name]);
        assert!(refused.contains(&format!("module {name} cannot be stopped: {why}")), "{refused}");
        let info = module_well(folder, &["info", name]);
        assert!(info.contains(&format!("can stop    no: {why}")), "{info}");
        assert_eq!(state(folder, name)["state"], "enabled");
    }
    for operation in ["replace", "unload"] {
        let refused = refusal(folder, &[operation, "sealing"]);
        assert!(refused.contains("module sealing is a part of the node: it can be enabled and disabled"), "{refused}");
    }
    assert!(refusal(folder, &["load", "sealing"]).contains("is a part of the node; give the library another name"));
    assert!(list.contains("sealing    actor   enabled"), "{list}");
    assert_eq!(state(folder, "sealing")["neededBy"], json!([]));
    assert_eq!(state(folder, "execution")["neededBy"], json!(["sealing"]));
}
