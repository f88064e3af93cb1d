//! `tenon import` of chains that networks of the reference client made.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use support::run_well;

/// A folder with the unpacked genesis of a recorded chain.
fn folder_with_genesis(path: &str) -> (tempfile::TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let genesis = folder.path().join("genesis.json");
    std::fs::write(&genesis, tenon_test_data::unpacked(path)).unwrap();
    let datadir = folder.path().join("data").to_str().unwrap().to_owned();
    let genesis = genesis.to_str().unwrap().to_owned();
    (folder, datadir, genesis)
}

/// Imports a chain in one call and expects its recorded head.
fn imports(name: &str, genesis: &str, head: &str) {
    let (_folder, datadir, genesis) = folder_with_genesis(genesis);
    let chain = tenon_test_data::path(format!("native/chains/{name}.rlp.gz"));
    let line = run_well(&["import", "--datadir", &datadir, "--genesis", &genesis, chain.to_str().unwrap()]);
    assert!(line.contains(&format!("head {head}")), "{line}");
}

#[test]
fn imports_a_chain_of_engine_v2_to_its_recorded_head() {
    let head = "673 0x59412189544e339ef4d4f53c0345b7e641ed242c24119d8e9f94bd8ea81a9a25";
    imports("local", "chain/native-genesis-local.json.gz", head);
}

#[test]
fn imports_a_chain_whose_forks_come_one_after_the_other_to_its_recorded_head() {
    let head = "1149 0x31a9519176d42e7f006a9a0ccb8846cd9ff6beacba0fb88606aece3ac6746c7b";
    imports("staged", "chain/native-genesis-staged.json.gz", head);
}

#[test]
fn imports_a_chain_that_switches_engines_to_its_recorded_head() {
    let head = "2738 0x5508c0d5e2c0e0aa48742f1d404c9e26fba88a6062f55cf601570844a9844358";
    imports("v1switch", "chain/native-genesis-v1switch.json.gz", head);
}

#[test]
fn imports_two_branches_and_ends_on_the_longer_one() {
    let (_folder, datadir, genesis) = folder_with_genesis("native/chains/reorg.genesis.json.gz");
    let branches = ["a", "b"].map(|branch| tenon_test_data::path(format!("native/chains/reorg-{branch}.rlp.gz")));
    let [first, second] = branches.each_ref().map(|path| path.to_str().unwrap());
    let line = run_well(&["import", "--datadir", &datadir, "--genesis", &genesis, first, second]);
    assert!(line.contains("head 20 0x506a8a2af658b6bb77385c9ece8703b24e24532b624675ddc8542df9a1adbb60"), "{line}");
}
