//! Wrong arguments: the exit code (`docs/command-line.md`), and that the error names the argument and the expected form.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use std::fs;
use std::path::Path;

use support::{make_pipe, refused};

#[test]
fn values_of_the_wrong_form_are_named_with_the_expected_one() {
    let number = "expected a whole number";
    let address = "expected an address: 40 hexadecimal digits";
    let hash = "expected a hash: 64 hexadecimal digits";
    for (arguments, words) in [
        (&["db", "unwind", "x"][..], number),
        (&["export", "-", "latest"], number),
        (&["verify-headers", "--threads", "x", "-"], number),
        (&["verify-headers", "--threads", "70000", "-"], "the number is too large"),
        (&["account", "new", "--password-fd", "x"], number),
        (&["device", "accounts", "--count", "0"], "expected a whole number from 1 to 1000"),
        (&["device", "simulate", "--port", "x"], number),
        (&["signer", "show", "--socket", "s", "x"], number),
        (&["signer", "audit", "show", "log", "--request", "x"], number),
        (&["account", "update", "0x12"], address),
        (&["signer", "policy", "explain", "p", "--client", "c", "--account", "x", "--message", "m"], address),
        (&["genesis", "verify", "mainnet", "--expect", "0x12"], hash),
        (&["snapshot", "verify", "place", "--trust-hash", "5"], hash),
    ] {
        let said = refused(2, arguments);
        assert!(said.contains("invalid value") && said.contains(words), "{arguments:?}: {said}");
    }
}

#[test]
fn a_genesis_that_is_unknown_or_cannot_be_read_is_named() {
    let said = refused(2, &["genesis", "show", "nosuch"]);
    assert!(said.starts_with("tenon: argument NAME|FILE: unknown network `nosuch`; use `mainnet`"), "{said}");
    for place in ["./nosuch.json", "/"] {
        let said = refused(2, &["genesis", "verify", place]);
        assert!(said.starts_with(&format!("tenon: {place}: ")), "{said}");
    }
}

#[test]
fn errors_about_a_genesis_file_name_the_place_and_no_types_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("genesis.json");
    let account = r#""0000000000000000000000000000000000000001""#;
    let array = "an array instead of an object";
    for (content, problem) in [
        ("[]", format!("{array} at line 1 column 2")),
        ("5", "invalid type: integer `5`, expected an object at line 1 column 1".to_owned()),
        ("{\"config\":\n []}", format!("config: {array} at line 2 column 2")),
        ("{\"config\":{},\n\"alloc\":[]}", format!("{array} at line 2 column 8")),
        (&format!("{{\"config\":{{}},\"alloc\":{{{account}:[]}}}}")[..], format!("{array} at line 1 column 67")),
        (
            "{\"config\":{\"blobSchedule\":{\"cancun\":[]}}}",
            format!("config.blobSchedule: {array} at line 1 column 27"),
        ),
        ("{\"config\":{\n\"XDPoS\":[]}}", format!("config.XDPoS: {array} at line 2 column 10")),
        (
            "{\"config\":{\"XDPoS\":{\n\"gap\":\"x\"}}}",
            "config.XDPoS: invalid type: string \"x\", expected a whole number of 0 or more at line 2 column 9"
                .to_owned(),
        ),
    ] {
        fs::write(&path, content).unwrap();
        let path = path.to_str().unwrap();

        let said = refused(1, &["genesis", "verify", path]);

        assert_eq!(said, format!("tenon: {path}: genesis file: {problem}"), "{content}");
    }
    fs::write(&path, "[]").unwrap();
    let path = path.to_str().unwrap();
    let data = folder.path().join("data");
    let said = refused(2, &["import", "--genesis", path, "--datadir", data.to_str().unwrap(), "/dev/null"]);
    assert!(said.starts_with(&format!("tenon: genesis file {path}: {array} at line 1 column 2; ")), "{said}");
}

/// The data folder has no chain, so that a copy of its database would fail with another exit code.
#[test]
fn a_place_with_other_content_is_refused_before_the_database_is_copied() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(path("full")).unwrap();
    fs::write(path("full/letter"), "dear").unwrap();
    fs::write(path("file"), "dear").unwrap();
    fs::write(path("file.tar.gz"), "dear").unwrap();
    let data = path("data");
    for (command, place, words) in [
        (&["snapshot", "create"][..], "full", "is not empty; give an empty or new folder"),
        (&["snapshot", "create"], "file", "is a file; give an empty or new folder"),
        (&["snapshot", "create"], "file.tar.gz", "already exists; give another file"),
        (&["db", "backup"], "full", "is not empty; give an empty or new folder"),
        (&["db", "backup"], "file", "is a file; give an empty or new folder"),
    ] {
        let place = path(place);
        let said = refused(2, &[command, &[&place, "--datadir", &data]].concat());
        assert_eq!(said, format!("tenon: {place} {words}"));
    }
    refused(3, &["snapshot", "create", &path("new"), "--datadir", &data]);
    assert!(!Path::new(&path("new")).exists());
}

#[test]
fn the_exit_code_tells_a_damaged_snapshot_from_a_place_without_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for name in ["empty", "torn", "array", "newer", "unreadable"] {
        fs::create_dir(path(name)).unwrap();
    }
    fs::write(path("file"), "x").unwrap();
    fs::write(path("damaged.tar.gz"), "x").unwrap();
    fs::write(path("torn/backup.json"), "{").unwrap();
    fs::write(path("array/backup.json"), "[]").unwrap();
    fs::write(path("newer/backup.json"), r#"{"backup":99,"databaseFormat":1}"#).unwrap();
    make_pipe(Path::new(&path("unreadable/backup.json")));
    let data = path("data");
    for (place, code, words) in [
        ("missing", 2, "missing: no such snapshot"),
        ("missing.tar.gz", 2, "missing.tar.gz: no such snapshot"),
        ("file", 2, "is not a snapshot: one in a file has a name that ends in .tar.gz or .tgz"),
        ("empty", 2, "is not a snapshot, or was not finished: it has no backup.json; give another"),
        ("torn", 1, "at line 1 column 1; the snapshot is incomplete, make another one"),
        ("array", 1, "an array instead of an object at line 1 column 2; the snapshot is incomplete, make another one"),
        ("damaged.tar.gz", 1, "use another snapshot"),
        ("unreadable", 1, "backup.json: it is not a regular file"),
        ("newer", 3, "use a newer release"),
    ] {
        let place = &path(place);
        let said = refused(code, &["snapshot", "verify", place]);
        assert!(said.contains(words), "{said}");
        let said = refused(code, &["snapshot", "restore", place, "--datadir", &data]);
        assert!(said.contains(words), "{said}");
        assert!(place.ends_with(".tar.gz") || !Path::new(&data).exists(), "{said}");
        let _ = fs::remove_dir_all(&data);
    }
    for (place, code, words) in
        [("missing", 2, "missing: no such backup"), ("empty", 2, "is not a backup"), ("torn", 1, "")]
    {
        let place = &path(place);
        for said in [
            refused(code, &["db", "backup", "verify", place]),
            refused(code, &["db", "restore", place, "--datadir", &data]),
        ] {
            assert!(said.contains(words), "{said}");
        }
        assert!(!Path::new(&data).exists());
    }
}
