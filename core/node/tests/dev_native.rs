//! `tenon dev --profile native`: a network of one masternode with the system contracts, from a developer's view.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use serde_json::{Value, json};
use support::{RunningNode, plugin_folder, run, run_well, text, until};

const VALIDATOR: &str = "0x0000000000000000000000000000000000000088";
const FIRST: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";
const SECOND: &str = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8";
/// A contract that always returns 42.
const ANSWER: &str = "0x600a600c600039600a6000f3602a60005260206000f3";

/// Sends a transaction of an unlocked account and returns its receipt.
fn send(node: &RunningNode, transaction: Value) -> Value {
    let hash = node.call_method("eth_sendTransaction", json!([transaction]));
    let receipt = until("the receipt", || {
        Some(node.call_method("eth_getTransactionReceipt", json!([hash]))).filter(|receipt| !receipt.is_null())
    });
    assert_eq!(receipt["status"], "0x1", "{transaction}");
    receipt
}

fn call(node: &RunningNode, to: &str, data: &str) -> String {
    node.call_method("eth_call", json!([{ "to": to, "data": data }, "latest"])).as_str().unwrap().to_owned()
}

fn quantity(value: &Value) -> u128 {
    u128::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

fn word(address: &str) -> String {
    format!("{:0>64}", address.trim_start_matches("0x"))
}

/// The last twenty bytes of a word.
fn address_in(word: &str) -> String {
    format!("0x{}", &word[word.len() - 40..])
}

fn transfer(node: &RunningNode) -> Value {
    send(node, json!({ "from": FIRST, "to": SECOND, "value": "0x1" }))
}

#[test]
fn makes_epochs_with_rewards_and_a_chain_that_imports_elsewhere() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("net").to_str().unwrap().to_owned();
    let node = RunningNode::start_dev(&["--profile", "native", "--epoch", "4", "--datadir", &folder]);
    assert_eq!(node.call_method("eth_chainId", json!([])), "0x141f");
    assert!(node.banner.iter().any(|line| line == "Engine       v2, epochs of 4"), "{:?}", node.banner);

    // A contract, a vote for the masternode, and the masternode's owner.
    let deployed = send(&node, json!({ "from": FIRST, "data": ANSWER, "gas": "0x30d40" }));
    assert!(call(&node, deployed["contractAddress"].as_str().unwrap(), "0x").ends_with("2a"));
    let masternode = address_in(&call(&node, VALIDATOR, "0x06a49fce"));
    let data = format!("0x6dd7d8ea{}", word(&masternode));
    let vote =
        json!({ "from": SECOND, "to": VALIDATOR, "value": "0x8ac7230489e80000", "data": data, "gas": "0x7a120" });
    assert_eq!(send(&node, vote)["logs"].as_array().unwrap().len(), 1);
    let owner = address_in(&call(&node, VALIDATOR, &format!("0xb642facd{}", word(&masternode))));

    // Fees are paid to the owner: 12.5 gwei per gas.
    let before = quantity(&node.call_method("eth_getBalance", json!([owner, "latest"])));
    let receipt = transfer(&node);
    let fee = quantity(&receipt["gasUsed"]) * quantity(&receipt["effectiveGasPrice"]);
    assert_eq!(quantity(&node.call_method("eth_getBalance", json!([owner, "latest"]))), before + fee);

    // Every fifteenth block is signed by the masternode; the second epoch switch after it pays its epoch's rewards.
    while quantity(&node.call_method("eth_blockNumber", json!([]))) < 21 {
        transfer(&node);
    }
    let block = |number: u64| node.call_method("eth_getBlockByNumber", json!([format!("{number:#x}"), true]));
    let signing = &block(16)["transactions"][0];
    assert_eq!(
        (&signing["from"], &signing["to"]),
        (&json!(masternode), &json!("0x0000000000000000000000000000000000000089"))
    );
    assert!(signing["input"].as_str().unwrap().ends_with(block(15)["hash"].as_str().unwrap().trim_start_matches("0x")));
    let switches: Vec<_> = (1..=21).filter(|number| block(*number)["validators"] == json!(masternode)).collect();
    assert_eq!(switches, [1, 4, 8, 12, 16, 20]);
    let balance = |number: u64| quantity(&node.call_method("eth_getBalance", json!([owner, format!("{number:#x}")])));
    let coins_paid_by = |number: u64| (balance(number) - balance(number - 1)) / 1_000_000_000_000_000_000;
    assert_eq!([12, 16, 20].map(coins_paid_by), [0, 0, 225]);
    assert_eq!(node.call_method("eth_getBlockByNumber", json!(["finalized", false]))["number"], "0x12");
    let ninth = block(9)["hash"].as_str().unwrap().to_owned();
    assert_eq!(node.signal("TERM"), Some(0));

    // The same blocks pass the checks for other nodes' blocks once the clock has reached their timestamps.
    let file = parent.path().join("chain.rlp").to_str().unwrap().to_owned();
    run_well(&["export", "--datadir", &folder, &file, "0", "9"]);
    let genesis = format!("{folder}/genesis.json");
    let copy = parent.path().join("copy").to_str().unwrap().to_owned();
    let imported = until("the time of the ninth block", || {
        let output = run(&["import", "--network", &genesis, "--datadir", &copy, &file]);
        let message = text(&output.stderr);
        assert!(output.status.success() || message.contains("block in the future"), "{message}");
        output.status.success().then(|| text(&output.stdout))
    });
    assert!(imported.contains(&format!("head 9 {ninth}")), "{imported}");
    let headers = run_well(&["verify-headers", "--network", &genesis, &file]);
    assert!(headers.starts_with("10 headers verified, 0 to 9"), "{headers}");
    let checked = run_well(&["genesis", "verify", &genesis]);
    assert!(checked.contains("1 in the extra data, the candidates of the validator contract"), "{checked}");

    // The node continues where it stopped.
    let again = RunningNode::start_dev(&["--datadir", &folder]);
    transfer(&again);
    assert_eq!(again.call_method("eth_blockNumber", json!([])), "0x16");
}

#[test]
fn makes_blocks_of_engine_v1_on_request() {
    let node = RunningNode::start_dev(&["--profile", "native-v1"]);
    assert!(node.banner.iter().any(|line| line == "Engine       v1, epochs of 900"), "{:?}", node.banner);
    // Block 1 is made at the start, without a transaction.
    for number in 2..=17 {
        transfer(&node);
        assert_eq!(quantity(&node.call_method("eth_blockNumber", json!([]))), number);
    }
    let block = node.call_method("eth_getBlockByNumber", json!(["0x10", true]));
    assert_eq!(block["transactions"].as_array().unwrap().len(), 2, "the masternode's signing transaction is in it");
    assert_eq!(block["extraData"].as_str().unwrap().len(), 2 + 2 * 97);
}

#[test]
fn makes_blocks_in_time_without_transactions() {
    let node = RunningNode::start_dev(&["--profile", "native", "--block-time", "20ms", "--epoch", "4"]);
    until("block 13", || (quantity(&node.call_method("eth_blockNumber", json!([]))) >= 13).then_some(()));
    let switches: Vec<_> = (1..=13)
        .filter(|number| {
            node.call_method("eth_getBlockByNumber", json!([format!("{number:#x}"), false]))["validators"] != "0x"
        })
        .collect();
    assert_eq!(switches, [1, 4, 8, 12]);
}

#[test]
fn refuses_settings_that_a_native_network_cannot_have() {
    let plugins = plugin_folder().to_str().unwrap();
    let refusal = |arguments: &[&str]| {
        let output = run(&[&["dev", "--port", "0", "--plugins", plugins], arguments].concat());
        (output.status.code(), text(&output.stderr))
    };
    let cases: [(&[&str], &str); 3] = [
        (&["--profile", "native", "--chain-id", "7"], "a native development network has chain id 5151"),
        (&["--profile", "native", "--epoch", "1"], "`dev.epoch`: expected 2 to 1000000000"),
        (&["--profile", "native-v1", "--epoch", "30"], "epochs of engine v1 have 900 blocks"),
    ];
    for (arguments, wanted) in cases {
        let (code, message) = refusal(arguments);
        assert_eq!(code, Some(2), "{message}");
        assert!(message.contains(wanted), "{message}");
    }

    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    assert_eq!(RunningNode::start_dev(&["--profile", "native", "--datadir", folder]).signal("TERM"), Some(0));
    let other = "legal winner thank year wave sausage worth useful legal winner thank yellow";
    for (arguments, wanted) in [
        (["--datadir", folder, "--profile", "ethereum"], "was created with other settings; leave out `dev.profile`"),
        (["--datadir", folder, "--mnemonic", other], "was created with other settings; leave out `dev.mnemonic`"),
    ] {
        let (code, message) = refusal(&arguments);
        assert_eq!(code, Some(3), "{message}");
        assert!(message.contains(wanted), "{message}");
    }
}
