//! Data stored with a chain, and copies of it: rules, backups, and the states that consensus needs.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use support::{HEAD_HASH, RunningNode, make_pipe, run, run_in_time, run_well, text, until};

/// A folder with a data folder that contains the recorded chain of the public RPC suite.
struct Imported {
    folder: tempfile::TempDir,
}

impl Imported {
    fn new() -> Self {
        let imported = Self { folder: tempfile::tempdir().unwrap() };
        imported.import(&tenon_test_data::path("execution-apis/genesis.json"));
        imported
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn datadir(&self) -> String {
        self.path("data").to_str().unwrap().to_owned()
    }

    fn import(&self, genesis: &Path) -> std::process::Output {
        let chain = tenon_test_data::path("execution-apis/chain.rlp.gz");
        let genesis = genesis.to_str().unwrap();
        run(&["import", "--datadir", &self.datadir(), "--genesis", genesis, chain.to_str().unwrap()])
    }

    /// Makes a backup; returns its path, also as text.
    fn backed_up(&self) -> (PathBuf, String) {
        let backup = self.path("backup");
        let name = backup.to_str().unwrap().to_owned();
        run_well(&["db", "backup", &name, "--datadir", &self.datadir()]);
        (backup, name)
    }

    /// A genesis file with other rules.
    fn with_rules(&self, changes: &[(&str, Value)]) -> PathBuf {
        let text = fs::read_to_string(tenon_test_data::path("execution-apis/genesis.json")).unwrap();
        let mut genesis: Value = serde_json::from_str(&text).unwrap();
        for (member, value) in changes {
            genesis["config"][member] = value.clone();
        }
        let path = self.path("other.json");
        fs::write(&path, genesis.to_string()).unwrap();
        path
    }
}

#[test]
fn other_rules_below_the_head_are_refused_by_fork_and_height_until_the_chain_is_unwound() {
    let chain = Imported::new();
    let other = chain.with_rules(&[("berlinBlock", json!(25)), ("shanghaiTime", json!(400))]);
    let kept = fs::read(chain.path("data/genesis.json")).unwrap();

    let refused = chain.import(&other);

    let words = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{words}");
    for wanted in [
        "Berlin from block 24 in this chain, from block 25 in the configured rules (block 24 is the first)",
        "Shanghai from time 390 in this chain, from time 400 in the configured rules (block 39 is the first)",
        "its head is block 54",
        "run `tenon db unwind 23` and start again",
    ] {
        assert!(words.contains(wanted), "{wanted}: {words}");
    }
    assert_eq!(fs::read(chain.path("data/genesis.json")).unwrap(), kept, "the folder keeps its own genesis file");

    let above = run(&["db", "unwind", "99", "--datadir", &chain.datadir()]);
    assert_eq!(above.status.code(), Some(2));
    assert!(text(&above.stderr).contains("there is no block 99; the chain has 0 to "));
    run_well(&["db", "unwind", "24", "--datadir", &chain.datadir()]);
    assert_eq!(chain.import(&other).status.code(), Some(3), "block 24 was made under the rules before");
    run_well(&["db", "unwind", "23", "--datadir", &chain.datadir()]);
    let taken_over = chain.import(&other);

    // The later blocks were made under the old rules and are checked under the new ones: none counts as known.
    let words = text(&taken_over.stderr);
    assert!(words.contains("block 24: transaction type not supported"), "{words}");
    assert_ne!(fs::read(chain.path("data/genesis.json")).unwrap(), kept);
    // No block was made under the other rules, so the first ones can be adopted again.
    let back = chain.import(&tenon_test_data::path("execution-apis/genesis.json"));
    assert!(text(&back.stdout).contains(HEAD_HASH), "{}", text(&back.stderr));
}

#[test]
fn rules_that_affect_no_block_of_the_chain_are_adopted() {
    let chain = Imported::new();

    // There is no block between these times, and none after block 54.
    let other = chain.with_rules(&[("shanghaiTime", json!(385)), ("bpo2Time", json!(100_000))]);
    let refused = chain.import(&other);
    let words = text(&refused.stderr);
    assert!(words.contains("BPO2") || words.contains("Bpo2") || words.contains("bpo2"), "{words}");
    assert!(!words.contains("Shanghai"), "{words}");

    let other = chain.with_rules(&[("shanghaiTime", json!(385))]);
    let done = chain.import(&other);
    assert!(done.status.success() && text(&done.stdout).contains(HEAD_HASH), "{}", text(&done.stderr));
    let done = chain.import(&tenon_test_data::path("execution-apis/genesis.json"));
    assert!(done.status.success(), "{}", text(&done.stderr));
}

#[test]
fn a_chain_whose_consensus_needs_more_states_than_are_kept_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let genesis = folder.path().join("genesis.json");
    fs::write(&genesis, tenon_test_data::unpacked("chain/native-genesis-staged.json.gz")).unwrap();
    let (datadir, nothing) = (folder.path().join("data"), folder.path().join("nothing.rlp"));
    fs::write(&nothing, "").unwrap();
    let import = |history: &str| {
        let paths = [&datadir, &genesis, &nothing].map(|path| path.to_str().unwrap().to_owned());
        let [datadir, genesis, nothing] = &paths;
        run(&[
            "import",
            "--datadir",
            datadir,
            "--genesis",
            genesis,
            "--gcmode",
            "pruned",
            "--history.state",
            history,
            nothing,
        ])
    };

    let refused = import("450");

    assert_eq!(refused.status.code(), Some(2));
    let words = text(&refused.stderr);
    assert!(words.contains("`database.history` is 450") && words.contains("keep at least 451"), "{words}");
    let kept = import("451");
    assert!(kept.status.success(), "{}", text(&kept.stderr));
}

#[test]
fn a_backup_of_a_folder_is_verified_restored_and_continued() {
    let chain = Imported::new();
    run_well(&["db", "unwind", "40", "--datadir", &chain.datadir()]);
    let (backup, restored) = (chain.path("backup"), chain.path("restored"));
    let [backup, restored] = [&backup, &restored].map(|path| path.to_str().unwrap());

    let made = run_well(&["db", "backup", backup, "--datadir", &chain.datadir()]);
    let sound = run_well(&["db", "backup", "verify", backup]);
    let done = run_well(&["db", "restore", backup, "--datadir", restored]);

    assert!(made.starts_with("backed up: chain 3503995874084926, block 40 0x"), "{made}");
    assert!(sound.starts_with("sound: ") && done.starts_with("restored: "), "{sound} {done}");
    assert!(!chain.path("data/checkpoint").exists());
    for folder in [backup, restored] {
        for file in fs::read_dir(Path::new(folder).join("db")).unwrap() {
            let file = file.unwrap();
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o077, 0, "{:?}", file.path());
        }
    }
    let stats = |datadir: &str| {
        let stats: Value = serde_json::from_str(&run_well(&["db", "stats", "--json", "--datadir", datadir])).unwrap();
        (stats["head"].clone(), stats["genesisHash"].clone())
    };
    assert_eq!(stats(restored), stats(&chain.datadir()));
    assert!(run_well(&["db", "verify", "--datadir", restored]).starts_with("sound: 41 blocks"));
    let whole = tenon_test_data::path("execution-apis/chain.rlp.gz");
    let on = run_well(&["import", "--datadir", restored, whole.to_str().unwrap()]);
    assert!(on.contains(HEAD_HASH), "{on}");
    // The rules were restored too.
    let other = chain.with_rules(&[("berlinBlock", json!(25))]);
    let refused =
        run(&["import", "--datadir", restored, "--genesis", other.to_str().unwrap(), whole.to_str().unwrap()]);
    assert!(text(&refused.stderr).contains("Berlin from block 24"), "{}", text(&refused.stderr));
    // Neither is overwritten.
    assert_eq!(run(&["db", "restore", backup, "--datadir", restored]).status.code(), Some(3));
    assert_eq!(run(&["db", "backup", backup, "--datadir", restored]).status.code(), Some(2));
}

#[test]
fn a_modified_backup_is_refused_and_the_difference_is_named() {
    let chain = Imported::new();
    let (backup, name) = chain.backed_up();
    let list = backup.join("backup.json");
    let whole = fs::read(&list).unwrap();
    let manifest: Value = serde_json::from_slice(&whole).unwrap();
    let table = manifest["files"].as_array().unwrap().iter().find_map(|file| {
        let path = file["path"].as_str().unwrap();
        path.ends_with(".sst").then(|| path.to_owned())
    });
    let table = table.unwrap();
    let content = fs::read(backup.join(&table)).unwrap();
    let restored = chain.path("restored");
    let assert_refused = |words: &str, what: &str| {
        for arguments in [
            vec!["db", "backup", "verify", &name],
            vec!["db", "restore", &name, "--datadir", restored.to_str().unwrap()],
        ] {
            let refused = run(&arguments);
            let said = text(&refused.stderr);
            assert!(!refused.status.success() && said.contains(words), "{what}: {said}");
        }
        assert!(!restored.join("db").exists(), "{what}");
    };

    let mut changed = content.clone();
    changed[content.len() / 2] ^= 1;
    fs::write(backup.join(&table), changed).unwrap();
    assert_refused(&format!("{table} differs from its entry in the list"), "a changed byte");
    fs::remove_file(backup.join(&table)).unwrap();
    assert_refused(&format!("{table} is missing"), "a missing table");
    fs::write(backup.join(&table), &content).unwrap();
    fs::write(backup.join("db/999999.sst"), "x").unwrap();
    assert_refused("db/999999.sst is not in its list", "a stray table");
    fs::remove_file(backup.join("db/999999.sst")).unwrap();
    fs::write(&list, &whole[..whole.len() / 2]).unwrap();
    assert_refused("the backup is incomplete", "a torn list");
    let with = |member: &str, value: Value| {
        let mut other = manifest.clone();
        other[member] = value;
        fs::write(&list, other.to_string()).unwrap();
    };
    let absent = chain.path("absent").to_str().unwrap().to_owned();
    let datadir = restored.to_str().unwrap();
    for arguments in [&["db", "backup", "verify", &absent][..], &["db", "restore", &absent, "--datadir", datadir]] {
        let refused = run(arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        let said = text(&refused.stderr);
        assert!(said.contains(&format!("{absent}: no such backup")), "{said}");
        assert!(!restored.join("db").exists(), "{arguments:?}");
    }
    with("databaseFormat", json!(99));
    assert_refused("use a newer release", "a newer format");
    with("files", json!([{ "path": "../../etc/passwd", "bytes": 1, "sha256": format!("0x{}", "00".repeat(32)) }]));
    assert_refused("is not a valid file name in a backup", "a path that leads out");
    fs::write(&list, &whole).unwrap();
    assert!(run_well(&["db", "backup", "verify", &name]).starts_with("sound: "));
}

#[test]
fn a_backup_is_not_written_into_the_copied_folder() {
    let chain = Imported::new();
    for place in ["data/db/backup", "data/keystore", "data/genesis.json"] {
        let target = chain.path(place);
        let refused = run(&["db", "backup", target.to_str().unwrap(), "--datadir", &chain.datadir()]);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{place}: {said}");
        assert!(said.contains(" is used by "), "{place}: {said}");
    }
    assert!(!chain.path("data/db/backup").exists());
}

#[test]
fn files_of_a_backup_that_are_not_regular_are_named_and_refused_at_once() {
    let chain = Imported::new();
    let (backup, name) = chain.backed_up();
    let restored = chain.path("restored");

    for file in ["db/CURRENT", "genesis.json", "backup.json"] {
        let path = backup.join(file);
        let content = fs::read(&path).unwrap();
        for kind in ["pipe", "link"] {
            fs::remove_file(&path).unwrap();
            let (aside, words) = (
                chain.path("aside"),
                if kind == "pipe" { "it is not a regular file" } else { "it is a symbolic link" },
            );
            fs::write(&aside, &content).unwrap();
            if kind == "pipe" {
                make_pipe(&path)
            } else {
                std::os::unix::fs::symlink(&aside, &path).unwrap()
            }
            for arguments in [
                vec!["db", "backup", "verify", &name],
                vec!["db", "restore", &name, "--datadir", restored.to_str().unwrap()],
            ] {
                let refused = run_in_time(&arguments);
                let said = text(&refused.stderr);
                assert!(
                    !refused.status.success() && said.contains(file) && said.contains(words),
                    "{file} {kind}: {said}"
                );
            }
        }
        fs::remove_file(&path).unwrap();
        fs::write(&path, content).unwrap();
    }
    // A file that is longer than its recorded length is not read to its end.
    let current = backup.join("db/CURRENT");
    fs::OpenOptions::new().write(true).open(&current).unwrap().set_len(1 << 40).unwrap();
    let refused = run_in_time(&["db", "backup", "verify", &name]);
    assert!(
        text(&refused.stderr).contains("db/CURRENT differs from its entry in the list"),
        "{}",
        text(&refused.stderr)
    );
    assert!(!restored.join("db").exists());
}

#[test]
fn a_genesis_file_that_contradicts_the_backup_is_refused_even_if_its_hash_is_listed() {
    let chain = Imported::new();
    let (backup, name) = chain.backed_up();
    let restored = chain.path("restored");
    let list = backup.join("backup.json");
    let whole: Value = serde_json::from_slice(&fs::read(&list).unwrap()).unwrap();
    let genesis = fs::read(backup.join("genesis.json")).unwrap();
    let with_genesis = |text: &[u8]| {
        fs::write(backup.join("genesis.json"), text).unwrap();
        let mut manifest = whole.clone();
        for file in manifest["files"].as_array_mut().unwrap() {
            if file["path"] == "genesis.json" {
                *file = json!({ "path": "genesis.json", "bytes": text.len(), "sha256": sha256(text) });
            }
        }
        fs::write(&list, manifest.to_string()).unwrap();
    };
    let restore = || run_in_time(&["db", "restore", &name, "--datadir", restored.to_str().unwrap()]);

    let mut other: Value = serde_json::from_slice(&genesis).unwrap();
    other["gasLimit"] = json!("0x1234567");
    with_genesis(other.to_string().as_bytes());
    let refused = restore();
    let said = text(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("genesis.json is for chain 3503995874084926 with genesis 0x"),
        "{said}"
    );
    assert!(said.contains("backup.json lists chain 3503995874084926 with genesis 0x"), "{said}");

    let rules = chain.with_rules(&[("berlinBlock", json!(25))]);
    with_genesis(&fs::read(rules).unwrap());
    let refused = restore();
    let said = text(&refused.stderr);
    assert!(!refused.status.success() && said.contains("genesis.json contradicts the chain"), "{said}");
    assert!(said.contains("Berlin from block 24 in this chain"), "{said}");

    assert!(!restored.join("db").exists() && !restored.join("genesis.json").exists());
    with_genesis(&genesis);
    assert!(restore().status.success());
}

fn sha256(bytes: &[u8]) -> String {
    format!("0x{}", Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

#[test]
fn a_nodes_database_stays_locked_even_if_the_lock_file_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let datadir = folder.path().join("data");
    let datadir = datadir.to_str().unwrap();
    let node = RunningNode::start_dev(&["--datadir", datadir]);
    fs::remove_file(folder.path().join("data/db/LOCK")).unwrap();

    for command in [&["db", "stats"][..], &["db", "verify"], &["db", "unwind", "0"], &["export", "-"]] {
        let refused = run_in_time(&[command, &["--datadir", datadir]].concat());
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(3), "{command:?}: {said}");
        assert!(said.contains("is in use by another process"), "{command:?}: {said}");
    }
    assert!(node.call_method("eth_accounts", json!([]))[0].is_string());
    drop(node);
    assert!(run(&["db", "verify", "--datadir", datadir]).status.success());
}

#[test]
fn a_database_of_this_format_needs_no_migration() {
    let chain = Imported::new();

    let done = run_well(&["db", "migrate", "--datadir", &chain.datadir()]);

    assert!(done.contains("has format 2, the newest that this release knows; nothing to do"), "{done}");
}

#[test]
fn a_backup_of_a_node_under_load_restores_to_a_block_that_it_had_with_equal_roots() {
    let folder = tempfile::tempdir().unwrap();
    let datadir = folder.path().join("data");
    let node = RunningNode::start_dev(&["--datadir", datadir.to_str().unwrap()]);
    let accounts = node.call_method("eth_accounts", json!([]));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let height = || {
        let number = node.call_method("eth_blockNumber", json!([]));
        u64::from_str_radix(number.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
    };

    let mut heads = Vec::new();
    std::thread::scope(|scope| {
        for sender in 0..2 {
            let (accounts, node, is_over) = (&accounts, &node, &is_over);
            scope.spawn(move || {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    let transfer =
                        json!([{ "from": accounts[sender], "to": accounts[5], "value": "0x1", "gas": "0x5208" }]);
                    node.call_method("eth_sendTransaction", transfer);
                }
            });
        }
        for round in 0..4 {
            let before = height();
            until("blocks under the load", || (height() > before + 3).then_some(()));
            let backup = folder.path().join(format!("backup-{round}"));
            let made = run_well(&["db", "backup", backup.to_str().unwrap(), "--datadir", datadir.to_str().unwrap()]);
            assert!(made.starts_with("backed up: "), "{made}");
            let manifest: Value = serde_json::from_slice(&fs::read(backup.join("backup.json")).unwrap()).unwrap();
            assert!(manifest["head"]["number"].as_u64().unwrap() >= before + 3, "{manifest}");
            heads.push(manifest["head"].clone());
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });

    for (round, head) in heads.iter().enumerate() {
        let block = node
            .call_method("eth_getBlockByNumber", json!([format!("{:#x}", head["number"].as_u64().unwrap()), false]));
        assert_eq!((&block["hash"], &block["stateRoot"]), (&head["hash"], &head["stateRoot"]), "backup {round}");
        let (backup, restored) =
            (folder.path().join(format!("backup-{round}")), folder.path().join(format!("new-{round}")));
        run_well(&["db", "restore", backup.to_str().unwrap(), "--datadir", restored.to_str().unwrap()]);
        let sound = run_well(&["db", "verify", "--datadir", restored.to_str().unwrap()]);
        assert!(sound.starts_with(&format!("sound: {} blocks", head["number"].as_u64().unwrap() + 1)), "{sound}");
    }
    assert!(!datadir.join("checkpoint").exists());
}
