//! Parts of a running node that are stopped and started like plugins.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use alloy_primitives::{B256, U256};
use alloy_rpc_types_eth::{BlockId, TransactionReceipt, TransactionRequest};
use serde_json::{Value, json};
use support::{BlockingClient, RunningNode, module, module_well, run_well, text, until};
use tenon_ipc_client::EthClient as _;

fn refusal(folder: &str, arguments: &[&str]) -> String {
    let output = module(folder, arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

fn height(node: &RunningNode) -> u64 {
    let client = node.client();
    client.answer(client.block_number()).unwrap().to()
}

/// Sends a transfer and returns its hash.
fn send(node: &RunningNode) -> B256 {
    let client = node.client();
    client.answer(client.send_transaction(transfer(&client))).unwrap()
}

/// A transfer between the first accounts.
fn transfer(client: &BlockingClient) -> TransactionRequest {
    let accounts = client.answer(client.accounts()).unwrap();
    TransactionRequest::default().from(accounts[0]).to(accounts[1]).value(U256::ONE)
}

fn wait_for_receipt(node: &RunningNode, hash: B256) -> TransactionReceipt {
    let client = node.client();
    until("the receipt", || client.answer(client.transaction_receipt(hash)).unwrap())
}

fn state(folder: &str, name: &str) -> Value {
    serde_json::from_str(&module_well(folder, &["info", name, "--json"])).unwrap()
}

#[test]
fn without_sealing_transactions_stay_pending_and_with_it_again_they_get_a_block() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let node = RunningNode::start_dev(&["--datadir", folder]);
    wait_for_receipt(&node, send(&node));
    let before = height(&node);

    let report = module_well(folder, &["disable", "sealing"]);
    let hash = send(&node);
    // Another operation on another module takes long enough for a sealer to make its block.
    module_well(folder, &["replace", "net"]);
    assert!(report.contains("sealing      disable  disabled"), "{report}");
    assert_eq!(height(&node), before);
    let client = node.client();
    let pending = client.answer(client.transaction_by_hash(hash)).unwrap().unwrap();
    assert_eq!(pending.block_number, None, "{pending:?}");
    drop(client);
    assert_eq!(module_well(folder, &["disable", "sealing"]), "sealing is disabled already\n");

    // The choice survives a restart, and so does the transaction.
    assert_eq!(node.signal("TERM"), Some(0));
    let node = RunningNode::start_dev(&["--datadir", folder]);
    assert_eq!(state(folder, "sealing")["state"], "disabled");
    assert_eq!(height(&node), before);

    module_well(folder, &["enable", "sealing"]);
    assert!(wait_for_receipt(&node, hash).status());
    assert_ne!(height(&node), before);
    assert_eq!(module_well(folder, &["enable", "sealing"]), "sealing is enabled already\n");
}

#[test]
fn a_stopped_pool_is_named_in_errors_and_its_dependants_are_notified() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let node = RunningNode::start_dev(&["--datadir", folder]);
    let client = node.client();
    let transfer = transfer(&client).nonce(0).gas_limit(21_000);

    let report: Value = serde_json::from_str(&module_well(folder, &["disable", "pool", "--json"])).unwrap();
    let refused = client.answer(client.send_transaction(transfer.clone())).unwrap_err();
    let balance = client.answer(client.balance(transfer.from.unwrap(), BlockId::latest()));

    assert_eq!((&report["operation"], &report["state"]), (&json!("disable"), &json!("disabled")));
    let told: Vec<_> = report["dependants"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(told.contains(&"sealing") && told.contains(&"eth"), "{told:?}");
    assert_eq!(refused.refusal(), Some("module pool is stopped; it can be enabled again"));
    assert!(balance.is_ok(), "{balance:?}");

    module_well(folder, &["enable", "pool"]);
    let hash = client.answer(client.send_transaction(transfer)).unwrap();
    assert!(wait_for_receipt(&node, hash).status());
}

#[test]
fn parts_that_cannot_be_stopped_list_their_users() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let _node = RunningNode::start_dev(&["--datadir", folder]);

    let users = |name| state(folder, name)["neededBy"].as_array().unwrap().clone();

    for (part, user) in [
        ("storage", "execution"),
        ("storage", "pool"),
        ("storage", "sealing"),
        ("storage", "eth"),
        ("execution", "sealing"),
        ("execution", "eth"),
    ] {
        assert!(users(part).contains(&json!(user)), "{user} uses {part}");
    }
    assert!(!users("execution").contains(&json!("storage")));
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

    assert!(text.contains("which may differ from the settings above") && text.contains("# net      "), "{text}");
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
        ("execution", "only it adds blocks to the chain"),
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
        assert!(
            refused.contains("module sealing is a part of the node, which cannot be loaded, replaced or unloaded"),
            "{refused}"
        );
    }
    assert!(refusal(folder, &["load", "sealing"]).contains("is a part of the node; give the library another name"));
    assert!(list.contains("sealing    actor  enabled"), "{list}");
    assert_eq!(state(folder, "sealing")["neededBy"], json!([]));
}

#[test]
fn actors_are_shown_with_their_mailbox_and_front_ends_with_their_address_and_connections() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let node = RunningNode::start_dev(&["--datadir", folder, "--metrics", "--metrics.port", "0"]);
    wait_for_receipt(&node, send(&node));

    let list = module_well(folder, &["list"]);
    let metrics = state(folder, "metrics");
    let (sealing, http) = (module_well(folder, &["info", "sealing"]), state(folder, "http"));
    module_well(folder, &["disable", "sealing"]);
    let stopped = state(folder, "sealing");

    for (name, address) in [("http", "http://127.0.0.1:"), ("socket", folder)] {
        let line = list.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line.contains("  running") && line.contains(address), "{list}");
    }
    // This command's own connection is open.
    assert_ne!(state(folder, "socket")["connections"], json!(0));
    assert_eq!(metrics["connections"], json!(0));
    assert!(metrics["address"].as_str().is_some_and(|address| address.ends_with("/metrics")), "{metrics}");
    assert!(http["connections"].is_u64() && http["mailbox"].is_null(), "{http}");
    assert!(sealing.contains("health      running\nmailbox     ") && sealing.contains(" of 2 messages\n"), "{sealing}");
    let mailboxes = [
        ("storage", " of 16"),
        ("execution", " of 1024"),
        ("sealing", " of 2"),
        ("pool", " of 64"),
        ("accounts", " of 1"),
    ];
    for (name, mailbox) in mailboxes {
        let line = list.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line.contains("  running  0         ") && line.contains(mailbox), "{list}");
    }
    assert_eq!((&stopped["health"], &stopped["mailbox"]), (&json!("stopped"), &Value::Null));
}
