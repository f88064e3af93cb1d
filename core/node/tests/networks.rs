//! `--network`, `tenon genesis` and `tenon verify-headers`: chains by name, without a node.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use serde_json::{Value, json};
use support::{run, run_well, text};
use tenon_test_data::unpacked;

/// Hash of block 0 of each public network, as in the reference client.
const PUBLIC: [(&str, &str, &str); 4] = [
    ("mainnet", "xinfin", "0x4a9d748bd78a8d0385b67788c2435dcdb914f98a96250b68863a1f8b7642d6b1"),
    ("testnet", "apothem", "0xbdea512b4f12ff1135ec92c00dc047ffb93890c2ea1aa0eefe9b013d80640075"),
    ("devnet", "devnet", "0x3c636c841ebee9121374fa76bd5480d17a23e1ba61d425dde21d7b3caba864f4"),
    ("devnet-5551", "devnet-5551", "0xb8be003946a9c2688e9f1e255a5567c3d144293ccde2ffb38452a5840081b402"),
];

/// A folder with a file in it, and the file's path.
fn file(name: &str, content: &[u8]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

fn genesis_hash_of(datadir: &str) -> Value {
    let stats: Value = serde_json::from_str(&run_well(&["db", "stats", "--json", "--datadir", datadir])).unwrap();
    stats["genesisHash"].clone()
}

#[test]
fn starts_a_public_chain_by_either_of_its_names_and_refuses_another_chain() {
    let nothing = file("nothing.rlp", b"");
    for (name, alias, hash) in PUBLIC {
        let folder = tempfile::tempdir().unwrap();
        let datadir = folder.path().to_str().unwrap();
        run_well(&["import", "--network", alias, "--datadir", datadir, &nothing.1]);
        assert_eq!(genesis_hash_of(datadir), hash);
        // The folder accepts its chain under each of the names.
        run_well(&["import", "--network", name, "--datadir", datadir, &nothing.1]);
        run_well(&["import", "--datadir", datadir, &nothing.1]);

        let other = if name == "mainnet" { "testnet" } else { "mainnet" };
        let refused = run(&["import", "--network", other, "--datadir", datadir, &nothing.1]);
        let message = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(3), "{message}");
        assert!(
            message.contains(&format!(" has {name} (chain ")) && message.contains(&format!("not {other} (chain ")),
            "{message}"
        );
        assert_eq!(genesis_hash_of(datadir), hash, "the folder is as it was");
    }
}

#[test]
fn accepts_a_genesis_file_as_a_network_and_names_an_unknown_network() {
    let (_folder, genesis) = file("genesis.json", &unpacked("chain/native-genesis-local.json.gz"));
    let (datadir, nothing) = (tempfile::tempdir().unwrap(), file("nothing.rlp", b""));
    let datadir = datadir.path().to_str().unwrap();
    run_well(&["import", "--network", &genesis, "--datadir", datadir, &nothing.1]);
    assert_eq!(genesis_hash_of(datadir), "0x50ddb5d648de6d3e8eafed3032ed638ee29e976754cdc8ed6e3dfe0abb216d28");

    let unknown = run(&["import", "--network", "mainet", "--datadir", datadir, &nothing.1]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("unknown network `mainet`; did you mean `mainnet`?"));
}

#[test]
fn verifies_the_genesis_of_every_public_network() {
    for (name, _, hash) in PUBLIC {
        let report: Value = serde_json::from_str(&run_well(&["genesis", "verify", name, "--json"])).unwrap();
        assert_eq!(
            (&report["hash"], &report["passed"], &report["network"]),
            (&json!(hash), &json!(true), &json!(name))
        );
        let shown: Value = serde_json::from_str(&run_well(&["genesis", "show", name, "--json"])).unwrap();
        assert_eq!(shown["hash"], hash);
        assert_eq!(shown["stateRoot"], report["stateRoot"]);
        assert!(run_well(&["genesis", "show", name]).contains(hash));
    }
    let mainnet: Value = serde_json::from_str(&run_well(&["genesis", "show", "mainnet", "--json"])).unwrap();
    assert_eq!(mainnet["forks"]["eip1559"]["block"], 98_800_200);
    assert_eq!(mainnet["consensus"]["switchBlock"], 80_370_000);
    assert_eq!(mainnet["consensus"]["rounds"].as_array().unwrap().len(), 7);
    assert_eq!(mainnet["signers"].as_array().unwrap().len(), 3);
}

#[test]
fn finds_errors_of_a_genesis_file_and_their_places() {
    let good: Value = tenon_test_data::json("chain/native-genesis-local.json.gz");
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut genesis = good.clone();
        change(&mut genesis);
        let (_folder, path) = file("genesis.json", genesis.to_string().as_bytes());
        let output = run(&["genesis", "verify", &path]);
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let contract = "0000000000000000000000000000000000000088";
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 6] = [
        (|_| {}, "ok     signers       4 in the extra data, the candidates of the validator contract"),
        (|genesis| genesis["config"]["chainId"] = json!(50), "FAILED hash"),
        (|genesis| genesis["extraData"] = json!("0x00"), "FAILED signers       extra data has 1 bytes"),
        (
            |genesis| genesis["extraData"] = json!(format!("0x{}", "00".repeat(97))),
            "can't start XDPoS chain without signers",
        ),
        (
            |genesis| genesis["alloc"]["0000000000000000000000000000000000000089"]["code"] = json!("0x"),
            "FAILED contract      no block signer contract",
        ),
        (
            |genesis| genesis["config"]["XDPoS"]["v2"]["switchBlock"] = json!(7),
            "v2 switch number is not epoch switch block 7, epoch 60",
        ),
    ];
    for (index, (change, wanted)) in cases.into_iter().enumerate() {
        let (code, output) = changed(&change);
        assert_eq!(code, Some(i32::from(index > 0)), "{output}");
        assert!(output.contains(wanted), "{wanted}: {output}");
    }
    let (_, output) = changed(&|genesis| genesis["alloc"][contract]["storage"] = json!({}));
    assert!(output.contains("the validator contract has no candidate"), "{output}");

    let (_folder, path) = file(
        "genesis.json",
        b"{\n  \"config\": {\n    \"chainId\": 1,\n    \"homesteadBlock\": [1]\n  },\n  \"alloc\": {}\n}",
    );
    let output = run(&["genesis", "verify", &path]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        message
            .contains("genesis.json: genesis file: config.homesteadBlock: `[1]` is not a number at line 4 column 23"),
        "{message}"
    );
}

/// A genesis of the reference's development branch, whose file names every height (`docs/spec/upgrades.md` 2.3).
#[test]
fn shows_the_heights_of_a_recorded_chain_with_the_upgrade_inside() {
    let (_folder, path) = file("genesis.json", &unpacked("native/chains/upgrade.genesis.json.gz"));

    let verified = run_well(&["genesis", "verify", &path]);

    for (rule, height) in [
        ("tip2019", 0),
        ("cancun", 0),
        ("prague", 90),
        ("dynamicGasLimit", 130),
        ("tipUpgradeReward", 175),
        ("tipUpgradePenalty", 215),
    ] {
        let line = format!("ok     rule          {rule} from block {height}: genesis file");
        assert!(verified.contains(&line), "{line}: {verified}");
    }
}

/// Each rule of a native chain with its first block and the origin of that number; a rule that this release does not
/// know is refused by name.
#[test]
fn shows_the_height_and_source_of_each_rule_and_refuses_an_unknown_one() {
    let mut genesis: Value = tenon_test_data::json("chain/native-genesis-local.json.gz");
    genesis["config"]["pragueBlock"] = json!(7);
    let (_folder, path) = file("genesis.json", genesis.to_string().as_bytes());
    let verified = run_well(&["genesis", "verify", &path]);
    for line in [
        "ok     rule          cancun from block 0: built in for network id 5151",
        "ok     rule          prague from block 7: genesis file",
        "ok     rule          tipUpgradeReward never: built in for network id 5151",
    ] {
        assert!(verified.contains(line), "{line}: {verified}");
    }
    let config = run_well(&["config", "--network", &path]);
    let line = |rule: &str| config.lines().find(|line| line.starts_with(&format!("# {rule} "))).unwrap().to_owned();
    assert!(line("prague").ends_with("7  genesis file"), "{config}");
    assert!(line("tipUpgradeReward").ends_with("never  built in for network id 5151"), "{config}");
    let config: Value = serde_json::from_str(&run_well(&["config", "--network", "testnet", "--json"])).unwrap();
    let rule = &config["rules"]["tipUpgradePenalty"];
    assert_eq!(rule, &json!({ "block": 83_600_000, "source": "built in for network id 51" }));
    assert_eq!(config["rules"]["osaka"], json!({ "block": null, "source": "built in for network id 51" }));

    genesis["config"]["fusakaBlock"] = json!(9);
    let (_folder, path) = file("genesis.json", genesis.to_string().as_bytes());
    let refused = run(&["genesis", "verify", &path]);
    let message = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{message}");
    assert!(message.contains("config.fusakaBlock is not a rule that this release knows"), "{message}");
}

#[test]
fn compares_a_genesis_with_the_hash_that_is_expected() {
    let expected = PUBLIC[0].2;
    assert!(run_well(&["genesis", "verify", "xinfin", "--expect", expected]).contains("as expected"));
    let other = run(&["genesis", "verify", "testnet", "--expect", expected]);
    assert_eq!(other.status.code(), Some(1));
    assert!(text(&other.stdout).contains(&format!("FAILED hash          {}, wanted {expected}", PUBLIC[1].2)));
}

/// A file of the recorded headers whose source has this prefix, and rules that fit them.
fn recorded_headers(source: &str, switch_block: u64, threshold: f64) -> (tempfile::TempDir, String, String) {
    let all: Value = tenon_test_data::json("chain/native-headers.json.gz");
    let chosen: Vec<_> =
        all.as_array().unwrap().iter().filter(|entry| entry["source"].as_str().unwrap().starts_with(source)).collect();
    let chosen: Vec<_> = chosen
        .iter()
        .map(|entry| {
            let rlp = entry["rlp"].as_str().unwrap().trim_start_matches("0x");
            json!({ "rlp": format!("0x{rlp}"), "hash": entry["hash"] })
        })
        .collect();
    let rules = json!({
        "config": { "chainId": 4000, "XDPoS": { "epoch": 900, "gap": 450, "v2": { "switchBlock": switch_block,
            "allConfigs": { "0": { "maxMasternodes": 108, "minePeriod": 2, "certificateThreshold": threshold } } } } },
        "difficulty": "0x1", "gasLimit": "0x1", "alloc": {},
    });
    let (folder, headers) = file("headers.json", Value::from(chosen).to_string().as_bytes());
    let genesis = folder.path().join("rules.json");
    std::fs::write(&genesis, rules.to_string()).unwrap();
    let genesis = genesis.to_str().unwrap().to_owned();
    (folder, headers, genesis)
}

/// Headers of current and former public networks, as published.
#[test]
fn verifies_real_headers() {
    // Consecutive headers: the switch block of engine v1 is checked alone, its three successors are verified in full.
    let (_folder, headers, rules) = recorded_headers("chain551", 7_074_000, 0.667);
    let report = verify_headers(&["--network", &rules, &headers]);
    assert_eq!((report["inFull"].as_u64(), report["alone"].as_u64()), (Some(3), Some(1)));
    assert_eq!((report["firstAlone"].as_u64(), report["last"].as_u64()), (Some(7_074_000), Some(7_074_003)));
    // Single headers of the main network, including its block 0, and block 0 of the test network.
    let (_folder, headers, _) = recorded_headers("chain50", 0, 0.667);
    let report = verify_headers(&[&headers]);
    assert_eq!((report["inFull"].as_u64(), report["alone"].as_u64()), (Some(1), Some(4)));
    let (_folder, headers, _) = recorded_headers("chain51", 0, 0.667);
    let report = verify_headers(&["--network", "testnet", &headers]);
    assert_eq!((report["inFull"].as_u64(), report["alone"].as_u64()), (Some(1), Some(0)));
    let empty = file("empty.rlp", b"");
    let unread = run(&["verify-headers", &empty.1]);
    assert_eq!(
        (unread.status.code(), text(&unread.stderr).contains("empty.rlp: the file has no header")),
        (Some(1), true)
    );
    let refused = run(&["verify-headers", "--network", "mainnet", &headers]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("block 0 is not the genesis block of this network"));
}

fn verify_headers(arguments: &[&str]) -> Value {
    serde_json::from_str(&run_well(&[&["verify-headers", "--json"], arguments].concat())).unwrap()
}

#[test]
fn verifies_the_headers_of_a_whole_chain_and_names_the_first_bad_one() {
    let (_folder, genesis) = file("genesis.json", &unpacked("chain/native-genesis-local.json.gz"));
    let packed = tenon_test_data::path("native/chains/local.rlp.gz");
    for threads in ["1", "2"] {
        let report = verify_headers(&["--network", &genesis, "--threads", threads, packed.to_str().unwrap()]);
        assert_eq!((report["headers"].as_u64(), report["inFull"].as_u64()), (Some(674), Some(674)));
        assert_eq!(report["lastHash"], "0x59412189544e339ef4d4f53c0345b7e641ed242c24119d8e9f94bd8ea81a9a25");
    }
    let file_bytes = unpacked("native/chains/local.rlp.gz");
    let mut headers = Vec::new();
    for block in tenon_chain::BlockStream::new(&file_bytes[..]) {
        let block = block.unwrap();
        let mut header = block.header.header().clone();
        if header.number == 400 {
            header.gas_used = header.gas_limit + 1;
        }
        tenon_chain::encode_header(&header, &mut headers);
    }
    let (_folder, tampered) = file("tampered.rlp", &headers);
    let refused = run(&["verify-headers", "--network", &genesis, &tampered]);
    let message = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        message.contains("400 headers verified, 0 to 399 ") && message.contains("tampered.rlp: header 400 ("),
        "{message}"
    );
    assert!(message.contains("gas used exceeded gaslimit"), "{message}");
}
