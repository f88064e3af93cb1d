//! `plugins/examples/erc20_index` in a real node: an ERC-20 token on a development chain, transfers, a head that is
//! moved back, a replacement, a killed process and a killed node. The index must equal a plain scan.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use support::{RunningNode, build, module_well, send_signal};

/// The first contract of the first development account.
const TOKEN: &str = "0x5fbdb2315678afecb367f032d93f642f64180aa3";
/// keccak256 of `Transfer(address,address,uint256)`.
const TRANSFER: &str = "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";
const SUPPLY: u64 = 1_000_000;
/// Time limit for an index to catch up.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A small token: an account's balance is the slot with the account as its number. `balanceOf(address)` reads it; every
/// other selector is `transfer(address,uint256)`.
fn token_code() -> String {
    // selector = calldata[0] >> 224; if it is balanceOf, jump to the end
    let dispatch = "60003560e01c6370a0823114605657";
    // value = calldata[36]; balances[caller] -= value; to = calldata[4]; balances[to] += value
    let moves = "602435803354033355600435805482018155";
    // log3(value, Transfer, caller, to)
    let log = format!("81600052337f{TRANSFER}60206000a3");
    let done = "600160005260206000f3";
    let balance = "5b6004355460005260206000f3";
    assert_eq!((dispatch.len() + moves.len() + log.len() + done.len()) / 2, 0x56, "where balanceOf jumps to");
    let body = format!("{dispatch}{moves}{log}{done}{balance}");
    // balances[caller] = supply; log3(supply, Transfer, 0, caller); return the code
    let constructor = |offset: usize| {
        let (supply, length) = (format!("62{SUPPLY:06x}"), body.len() / 2);
        format!(
            "{supply}3355{supply}6000523360007f{TRANSFER}60206000a3\
             60{length:02x}60{offset:02x}60003960{length:02x}6000f3"
        )
    };
    let offset = constructor(0).len() / 2;
    constructor(offset) + &body
}

/// Builds the index, and the namespace that can move the head back, into a folder.
fn build_into(folder: &Path) {
    let built = build(&["tenon-example-erc20-index".to_owned(), "tenon-plugin-debug".to_owned()]);
    for library in [INDEX, DEBUG] {
        std::fs::copy(built.join(library), folder.join(library)).unwrap();
    }
}

const INDEX: &str = "libtenon_example_erc20_index.so";
const DEBUG: &str = "libtenon_plugin_debug.so";

/// A node with the index, on one data folder.
struct Indexed {
    folder: String,
    settings: String,
    node: RunningNode,
}

impl Indexed {
    fn start(folder: &Path, isolation: &str) -> Self {
        build_into(folder);
        let settings = folder.join("node.toml");
        let (index, debug) = (folder.join(INDEX), folder.join(DEBUG));
        // A foreign build runs in the node's own process only if the operator vouches for it.
        let vouched: &[Vec<u8>] = if isolation == "in-process" { &[std::fs::read(&index).unwrap()] } else { &[] };
        let trusted: Vec<String> =
            vouched.iter().map(|build| alloy_primitives::hex::encode(Sha256::digest(build))).collect();
        let content = format!(
            "[plugins]\ntrusted = {trusted:?}\n[plugins.debug]\npath = {debug:?}\n[plugins.token]\npath = {index:?}\nisolation = \"{isolation}\"\n\
             capabilities = [\"ReadChain\", \"Storage\"]\n[plugins.token.settings]\ntokens = [\"{TOKEN}\"]\n"
        );
        std::fs::write(&settings, content).unwrap();
        let owned = |path: &Path| path.to_str().unwrap().to_owned();
        let (folder, settings) = (owned(&folder.join("data")), owned(&settings));
        let node = Self::run(&folder, &settings);
        Self { folder, settings, node }
    }

    fn run(folder: &str, settings: &str) -> RunningNode {
        RunningNode::start_dev(&["--datadir", folder, "--config", settings])
    }

    /// Kills the node as a power failure would, and starts it again.
    fn kill_and_restart(mut self) -> Self {
        send_signal(&self.node.child, "KILL");
        self.node.child.wait().unwrap();
        let node = Self::run(&self.folder, &self.settings);
        Self { node, ..self }
    }

    fn accounts(&self) -> Vec<String> {
        serde_json::from_value(self.node.call_method("eth_accounts", json!([]))).unwrap()
    }

    /// Sends a transaction, and waits until it is in a block.
    fn send(&self, transaction: &Value) -> Value {
        let hash = self.node.call_method("eth_sendTransaction", json!([transaction]));
        let begun = Instant::now();
        loop {
            let receipt = self.node.call_method("eth_getTransactionReceipt", json!([hash]));
            if !receipt.is_null() {
                assert_eq!(receipt["status"], "0x1", "{transaction}");
                return receipt;
            }
            assert!(begun.elapsed() < TIMEOUT, "no block for {transaction}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn transfer(&self, from: &str, to: &str, value: u64) {
        let data = format!("0xa9059cbb{:0>64}{value:064x}", &to[2..]);
        self.send(&json!({ "from": from, "to": TOKEN, "data": data, "gas": "0x186a0" }));
    }

    /// Waits until the index has reached the head.
    fn wait_for_the_index(&self) -> Value {
        let begun = Instant::now();
        loop {
            // While its process is restarted, the answer is an error.
            let answer = self.node.client().call_method("token_status", &json!([]));
            match answer {
                Ok(status) if status["isCaughtUp"] == true => return status,
                answer => assert!(begun.elapsed() < TIMEOUT, "the index does not catch up: {answer:?}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Compares the index with all logs of the chain and with the contract itself.
    fn assert_matches_plain_scan(&self) {
        let status = self.wait_for_the_index();
        let filter = json!([{ "fromBlock": "0x0", "toBlock": "latest", "address": TOKEN }]);
        let logs = self.node.call_method("eth_getLogs", filter);
        let logs = logs.as_array().unwrap();
        let mut balances: BTreeMap<String, i128> = BTreeMap::new();
        for log in logs {
            let value = i128::from_str_radix(&log["data"].as_str().unwrap()[2..], 16).unwrap();
            for (topic, sign) in [(1, -1), (2, 1)] {
                let holder = format!("0x{}", &log["topics"][topic].as_str().unwrap()[26..]);
                *balances.entry(holder).or_default() += sign * value;
            }
        }
        balances.retain(|holder, balance| *balance != 0 && !holder.ends_with(&"0".repeat(40)));
        assert_eq!(status["tokens"][0]["transfers"], logs.len(), "{status}");
        assert_eq!(status["tokens"][0]["holders"], balances.len(), "{status}");
        for (holder, balance) in &balances {
            let expected = json!(format!("0x{balance:x}"));
            assert_eq!(self.node.call_method("token_balanceOf", json!([TOKEN, holder])), expected, "{holder}");
            let data = format!("0x70a08231{:0>64}", &holder[2..]);
            let by_contract = self.node.call_method("eth_call", json!([{ "to": TOKEN, "data": data }, "latest"]));
            assert_eq!(by_contract, json!(format!("0x{balance:064x}")), "{holder}");
        }
        let transfers = self.node.call_method("token_transfers", json!([TOKEN, { "limit": 1000 }]));
        let place = |entry: &Value| (entry["blockNumber"].clone(), entry["logIndex"].clone());
        let indexed: Vec<_> = transfers["entries"].as_array().unwrap().iter().map(place).collect();
        let scanned: Vec<_> = logs.iter().rev().map(place).collect();
        assert_eq!(indexed, scanned);
    }
}

/// The whole scenario, in one isolation mode.
fn the_index_equals_a_plain_scan(isolation: &str) {
    let folder = tempfile::tempdir().unwrap();
    let indexed = Indexed::start(folder.path(), isolation);
    let accounts = indexed.accounts();
    let (owner, others) = accounts.split_first().unwrap();
    let deployed = indexed.send(&json!({ "from": owner, "data": format!("0x{}", token_code()), "gas": "0x4c4b40" }));
    assert_eq!(deployed["contractAddress"], TOKEN);
    for (other, value) in others.iter().zip(1..) {
        indexed.transfer(owner, other, value * 10);
    }
    indexed.assert_matches_plain_scan();

    let height = indexed.wait_for_the_index()["indexed"]["number"].clone();
    indexed.node.call_method("debug_setHead", json!(["0x4"]));
    assert_ne!(indexed.wait_for_the_index()["indexed"]["number"], height);
    indexed.assert_matches_plain_scan();
    indexed.transfer(&others[0], &others[1], 3);
    module_well(&indexed.folder, &["replace", "token"]);
    indexed.transfer(&others[1], owner, 4);
    indexed.assert_matches_plain_scan();

    let info: Value = serde_json::from_str(&module_well(&indexed.folder, &["info", "token", "--json"])).unwrap();
    assert_eq!((info["isolation"].as_str(), info["process"].is_null()), (Some(isolation), isolation == "in-process"));
    let number = |key: &str| info["storage"][key].as_u64().unwrap();
    assert!(number("records") > 0 && number("bytes") > number("records"), "{info}");
    assert_eq!(number("maxBytes"), 1 << 30, "{info}");
    if let Some(process) = info["process"].as_u64() {
        assert!(Command::new("kill").args(["-KILL", &process.to_string()]).status().unwrap().success());
        indexed.transfer(owner, &others[2], 5);
        indexed.assert_matches_plain_scan();
    }
    indexed.transfer(owner, &others[3], 6);
    let indexed = indexed.kill_and_restart();
    indexed.assert_matches_plain_scan();
    indexed.transfer(owner, &others[4], 7);
    indexed.assert_matches_plain_scan();

    let unloaded = module_well(&indexed.folder, &["unload", "token", "--purge"]);
    assert!(unloaded.contains("records of") && unloaded.contains("bytes removed"), "{unloaded}");
    module_well(&indexed.folder, &["load", "token"]);
    indexed.assert_matches_plain_scan();
}

#[test]
fn the_index_in_a_separate_process_equals_a_plain_scan() {
    the_index_equals_a_plain_scan("process");
}

#[test]
fn the_index_in_the_nodes_process_equals_a_plain_scan() {
    the_index_equals_a_plain_scan("in-process");
}
