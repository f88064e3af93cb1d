//! `tenon import`, `export` and `db` over the recorded chain of the public RPC suite.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use std::io::Write as _;
use std::process::Stdio;

use support::{HEAD_HASH, HEAD_NUMBER, recorded_chain, run, run_well, send_signal, tenon, text};
use tenon_chain::BlockStream;

fn genesis() -> String {
    tenon_test_data::path("execution-apis/genesis.json").to_str().unwrap().to_owned()
}

/// The first `count` blocks of the recorded chain.
fn first_blocks(count: usize) -> Vec<u8> {
    let chain = recorded_chain();
    let mut stream = BlockStream::new(&chain[..]);
    for _ in 0..count {
        stream.next_encoded().unwrap().unwrap();
    }
    let length = usize::try_from(stream.offset()).unwrap();
    chain[..length].to_vec()
}

#[test]
fn continues_where_an_earlier_import_ended() {
    let folder = tempfile::tempdir().unwrap();
    let datadir = folder.path().join("data");
    let datadir = datadir.to_str().unwrap();
    let part = folder.path().join("part.rlp");
    std::fs::write(&part, first_blocks(20)).unwrap();

    let first = run_well(&["import", "--datadir", datadir, "--genesis", &genesis(), part.to_str().unwrap()]);
    let whole = tenon_test_data::path("execution-apis/chain.rlp.gz");
    let second = run_well(&["import", "--datadir", datadir, whole.to_str().unwrap()]);
    let third = run_well(&["import", "--datadir", datadir, whole.to_str().unwrap()]);

    assert!(first.starts_with("imported 20 blocks") && first.contains("; head 20 0x"), "{first}");
    assert!(second.starts_with(&format!("imported {} blocks", HEAD_NUMBER - 20)), "{second}");
    assert!(second.contains(&format!(", 20 were already in the chain; head {HEAD_NUMBER} {HEAD_HASH}")), "{second}");
    assert!(third.starts_with("imported 0 blocks") && third.contains(HEAD_HASH), "{third}");
}

#[test]
fn exports_imported_blocks_and_removes_them_again() {
    let folder = tempfile::tempdir().unwrap();
    let datadir = folder.path().join("data");
    let datadir = datadir.to_str().unwrap();
    let whole = tenon_test_data::path("execution-apis/chain.rlp.gz");
    run_well(&["import", "--datadir", datadir, "--genesis", &genesis(), whole.to_str().unwrap()]);

    let exported = folder.path().join("out.rlp.gz");
    run_well(&["export", "--datadir", datadir, exported.to_str().unwrap(), "1"]);
    let sound = run_well(&["db", "verify", "--datadir", datadir]);
    let unwound = run_well(&["db", "unwind", "10", "--datadir", datadir]);
    let still_sound = run_well(&["db", "verify", "--datadir", datadir]);
    let again = run_well(&["import", "--datadir", datadir, exported.to_str().unwrap()]);
    let figures = run_well(&["db", "stats", "--datadir", datadir]);

    assert!(tenon_test_data::unpacked(&exported) == recorded_chain(), "the exported bytes differ");
    assert!(sound.starts_with("sound: 55 blocks"), "{sound}");
    assert!(unwound.starts_with("unwound from block 54; head 10 0x"), "{unwound}");
    assert!(still_sound.starts_with("sound: 11 blocks"), "{still_sound}");
    assert!(again.starts_with("imported 44 blocks") && again.contains(HEAD_HASH), "{again}");
    assert!(figures.contains(HEAD_HASH), "{figures}");
}

#[test]
fn stops_at_a_whole_block_when_it_is_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let datadir = folder.path().join("data");
    let datadir = datadir.to_str().unwrap();
    let mut child = tenon()
        .args(["import", "--datadir", datadir, "--genesis", &genesis(), "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Several whole blocks and a part of one, and then no more data: the program waits for the rest.
    let blocks = recorded_chain();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&blocks[..blocks.len() * 2 / 3]).unwrap();
    input.flush().unwrap();
    // It handles signals before it creates the folder.
    while !std::path::Path::new(datadir).join("genesis.json").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }

    send_signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    drop(input);

    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("run the same command to continue"), "{}", text(&output.stderr));
    let verified = run_well(&["db", "verify", "--datadir", datadir]);
    assert!(verified.starts_with("sound: "), "{verified}");
    let whole = tenon_test_data::path("execution-apis/chain.rlp.gz");
    let rest = run_well(&["import", "--datadir", datadir, whole.to_str().unwrap()]);
    assert!(rest.contains(HEAD_HASH), "{rest}");
}

#[test]
fn refuses_a_folder_of_another_chain() {
    let folder = tempfile::tempdir().unwrap();
    let datadir = folder.path().to_str().unwrap();
    let nothing = folder.path().join("nothing.rlp");
    std::fs::write(&nothing, "").unwrap();
    let nothing = nothing.to_str().unwrap();
    run_well(&["import", "--datadir", datadir, "--genesis", &genesis(), nothing]);

    let other = run(&["import", "--datadir", datadir, "--genesis", &other_genesis(&folder), nothing]);

    assert_eq!(other.status.code(), Some(3));
    let message = text(&other.stderr);
    assert!(message.contains("choose another --datadir"), "{message}");
}

/// The same genesis with another chain id and other balances.
fn other_genesis(folder: &tempfile::TempDir) -> String {
    let text = std::fs::read_to_string(genesis()).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["config"]["chainId"] = 5.into();
    json["gasLimit"] = "0x5f5e101".into();
    let path = folder.path().join("other.json");
    std::fs::write(&path, json.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn names_missing_files_before_it_creates_anything() {
    let folder = tempfile::tempdir().unwrap();
    let datadir = folder.path().join("data");
    let datadir = datadir.to_str().unwrap();

    let no_file = run(&["import", "--datadir", datadir, "--genesis", &genesis(), "/nowhere/chain.rlp"]);
    let no_genesis = run(&["import", "--datadir", datadir, &genesis()]);
    let no_chain = run(&["db", "stats", "--datadir", datadir]);

    assert_eq!(no_file.status.code(), Some(2));
    assert!(text(&no_file.stderr).starts_with("tenon: /nowhere/chain.rlp: "), "{}", text(&no_file.stderr));
    assert_eq!(no_genesis.status.code(), Some(2));
    assert!(
        text(&no_genesis.stderr).contains("give --network mainnet, testnet, devnet, devnet-5551 or a genesis file"),
        "{}",
        text(&no_genesis.stderr)
    );
    assert_eq!(no_chain.status.code(), Some(3));
    assert!(
        text(&no_chain.stderr).contains("has no chain; give the folder with --datadir"),
        "{}",
        text(&no_chain.stderr)
    );
}
