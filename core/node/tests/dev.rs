//! `tenon dev` from a developer's view.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use support::{RunningNode, plugin_folder, run, send_signal, text, until};

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

/// No other owner may keep the database open: an engine keeps its records there.
#[test]
fn closes_its_database_when_it_stops() {
    for profile in ["ethereum", "native"] {
        let mut node = RunningNode::start_dev(&["--profile", profile]);
        let mut log = node.child.stderr.take().unwrap();

        assert_eq!(node.signal("TERM"), Some(0));

        let mut lines = String::new();
        log.read_to_string(&mut lines).unwrap();
        assert!(lines.contains(" stopped ") && !lines.contains("keeps the database open"), "{profile}: {lines}");
    }
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
    until("a block", || (!first.ask_socket(BLOCK_NUMBER).contains(r#""0x0""#)).then_some(()));
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
    assert!(message.contains("leave out `dev.accounts` (flag --accounts), or choose another --datadir"), "{message}");
}

#[test]
fn stops_at_once_on_a_second_signal() {
    let mut node = RunningNode::start_dev(&["--rpc.gascap", "0", "--rpc.evmtimeout", "10m", "--grace", "10m"]);
    let folder = node.socket.parent().unwrap().to_owned();
    let mut errors = BufReader::new(node.child.stderr.take().unwrap()).lines();
    // A call that runs as long as allowed: an endless loop with practically unlimited gas.
    let mut caller = UnixStream::connect(&node.socket).unwrap();
    let loops = r#"{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[
        {"to":"0x00000000000000000000000000000000000000aa","gas":"0xffffffffffffff"},"latest",
        {"0x00000000000000000000000000000000000000aa":{"code":"0x5b600056"}}]}"#;
    caller.write_all(loops.as_bytes()).unwrap();
    // The connection's next request is read after the call.
    caller.write_all(BLOCK_NUMBER.as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(caller.try_clone().unwrap()).read_line(&mut answer).unwrap();
    assert_eq!(answer.trim(), r#"{"jsonrpc":"2.0","id":1,"result":"0x0"}"#);

    send_signal(&node.child, "TERM");
    assert!(errors.any(|line| line.unwrap().contains("a second signal stops at once")));
    let code = node.signal("INT");

    assert_eq!(code, Some(130));
    assert!(!folder.exists(), "the ephemeral folder is still there");
}

#[test]
fn starts_without_a_namespace_that_no_plugin_serves() {
    let mut node = RunningNode::start_dev(&["--http.api", "eth,clique"]);

    assert!(node.ask_http(BLOCK_NUMBER).contains(r#""0x0""#));
    let not_served = node.ask_http(r#"{"jsonrpc":"2.0","id":1,"method":"net_version"}"#);
    assert!(not_served.contains("the method net_version does not exist/is not available"), "{not_served}");
    send_signal(&node.child, "TERM");
    let mut log = String::new();
    node.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(log.contains("no plugin serves this namespace") && log.contains("clique"), "{log}");
}

#[test]
fn names_a_port_in_use_and_a_missing_plugin_folder() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let plugins = plugin_folder().to_str().unwrap();

    let busy = run(&["dev", "--port", &port, "--plugins", plugins]);
    let nowhere = run(&["dev", "--port", "0", "--plugins", "/nowhere/plugins"]);

    assert_eq!(busy.status.code(), Some(1));
    assert!(text(&busy.stderr).contains(&format!("cannot listen on 127.0.0.1:{port}")), "{}", text(&busy.stderr));
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(text(&nowhere.stderr).contains("plugin folder /nowhere/plugins: "), "{}", text(&nowhere.stderr));
}
