//! `tenon dev` as a developer sees it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod support;

use support::{RunningNode, plugin_folder, run, text};

const BLOCK_NUMBER: &str = r#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}"#;

#[test]
fn answers_on_every_endpoint_and_stops_in_order_on_a_signal() {
    let node = RunningNode::start_dev(&[]);
    let folder = node.socket.parent().unwrap().to_owned();

    let expected = r#"{"jsonrpc":"2.0","id":1,"result":"0x0"}"#;
    assert_eq!(node.ask_socket(BLOCK_NUMBER).trim(), expected);
    assert_eq!(node.ask_http(BLOCK_NUMBER).trim(), expected);
    let version = node.ask_http(r#"{"jsonrpc":"2.0","id":1,"method":"web3_clientVersion"}"#);
    assert!(version.contains("Tenon/v0.1.0"), "{version}");
    let endpoints = std::fs::read_to_string(folder.join("endpoints.json")).unwrap();
    assert!(endpoints.contains(&format!("http://{}", node.http)), "{endpoints}");

    assert_eq!(node.signal("TERM"), Some(0));
    assert!(!folder.exists(), "the ephemeral folder is still there");
}

#[test]
fn shows_the_well_known_accounts_with_money() {
    let node = RunningNode::start_dev(&["--accounts", "2", "--balance", "5"]);

    let banner = node.banner.join("\n");
    for known in [
        "(0) 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
        "(1) 0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
        "Chain id     31337",
    ] {
        assert!(banner.contains(known), "{known} is not in\n{banner}");
    }
    let balance = node.ask_socket(
        r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266","latest"]}"#,
    );
    assert!(balance.contains(r#""result":"0x4563918244f40000""#), "{balance}");
}

#[test]
fn keeps_a_chain_in_a_folder_of_the_developers() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("net");
    let folder = folder.to_str().unwrap();

    let first = RunningNode::start_dev(&["--datadir", folder, "--chain-id", "77", "--block-time", "10ms"]);
    while first.ask_socket(BLOCK_NUMBER).contains(r#""0x0""#) {}
    assert_eq!(first.signal("INT"), Some(0));
    let second = RunningNode::start_dev(&["--datadir", folder]);

    assert!(!second.ask_socket(BLOCK_NUMBER).contains(r#""0x0""#));
    let chain = second.ask_socket(r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#);
    assert!(chain.contains(r#""0x4d""#), "{chain}");
}

#[test]
fn refuses_a_folder_that_another_node_uses() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().to_str().unwrap();
    let _first = RunningNode::start_dev(&["--datadir", folder]);

    let second = run(&["dev", "--port", "0", "--datadir", folder, "--plugins", plugin_folder().to_str().unwrap()]);

    assert_eq!(second.status.code(), Some(3));
    let message = text(&second.stderr);
    assert!(message.contains("is in use by another process; stop it, or choose another --datadir"), "{message}");
}

#[test]
fn refuses_a_folder_that_was_made_with_other_settings() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().to_str().unwrap();
    assert_eq!(RunningNode::start_dev(&["--datadir", folder]).signal("TERM"), Some(0));

    let second = run(&["dev", "--port", "0", "--datadir", folder, "--accounts", "3"]);

    assert_eq!(second.status.code(), Some(3));
    let message = text(&second.stderr);
    assert!(message.contains("leave `dev.accounts` (flag --accounts) out, or choose another --datadir"), "{message}");
}
