//! Files other than this project's: with another layout, of newer forks and forms, or broken.

#![allow(clippy::unwrap_used, reason = "test helpers may panic")]

use std::{fs, path::Path};

use tenon_ethereum_tests::{Outcome, Report, Selection, Skips, Source, SuiteCounts, run};

/// A transfer of 1 wei under a fork, in the form from before cases had senders and signed bytes. The root is that of
/// the empty state.
const OLD_TRANSFER: &str = r#"{
    "_info": { "comment": "of the file" },
    "// remark": 1,
    "transfer": {
        "_info": { "labels": {} },
        "config": { "chainid": "0x01" },
        "env": {
            "currentCoinbase": "0x2adc25665018aa1fe0e6bc666dac8fc2697ff9ba", "currentDifficulty": "0x020000",
            "currentGasLimit": "0x0f4240", "currentNumber": "0x01", "currentTimestamp": "0x03e8", "newMember": {}
        },
        "pre": { "0xa94f5374fce5edbc8e2a8697c15331677e6ebf0b":
            { "balance": "0x0f4240", "code": "0x", "nonce": "0x00", "storage": {} } },
        "transaction": {
            "data": ["0x"], "gasLimit": ["0x5208"], "value": ["0x01"], "gasPrice": "0x01", "nonce": "0x00",
            "secretKey": "0x45a915e4d060149eb4365960e6a7a45f334393093061116b197e3240065ff2d8",
            "to": "0x0000000000000000000000000000000000001000"
        },
        "post": { "FORK": [{
            "hash": "0x0000000000000000000000000000000000000000000000000000000000000000",
            "logs": "0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347",
            "indexes": { "data": 0, "gas": 0, "value": 0 }
        }] }
    }
}"#;

fn report_of(files: &[(&str, &str)], selection: &Selection) -> Report {
    let folder = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    run(&Source::folder(folder.path()).unwrap(), selection)
}

fn outcomes(report: &Report) -> Vec<(String, Outcome)> {
    report.cases.iter().map(|case| (case.name.clone(), case.outcome.clone())).collect()
}

#[test]
fn a_case_without_signed_bytes_is_sent_by_the_owner_of_its_key() {
    let files = [("Legacy/GeneralStateTests/deep/er/a b.json", &*OLD_TRANSFER.replace("FORK", "Byzantium"))];

    let report = report_of(&files, &Selection::default());

    let [(name, Outcome::Failed(difference))] = &outcomes(&report)[..] else { panic!("{report}") };
    assert_eq!(name, "Legacy/GeneralStateTests/deep/er/a b.json: transfer Byzantium data 0 gas 0 value 0");
    // The logs, compared first, are those of a transfer that was executed.
    assert_eq!(difference.field, "state root");
}

#[test]
fn unknown_suites_and_rules_are_counted_and_printed() {
    let state_test = OLD_TRANSFER.replace("FORK", "Verkle");
    let files = [
        ("EOFTests/efValidation/a.json", "{}"),
        ("EOFTests/efStack/b.json", "not even JSON"),
        ("loose.json", "[]"),
        ("GeneralStateTests/fork.json", &*state_test),
        ("GeneralStateTests/form.json", r#"{ "x": { "exec": {} } }"#),
        ("BlockchainTests/ValidBlocks/list.json", "[1, 2]"),
        ("BlockchainTests/ValidBlocks/form.json", r#"{ "x": { "engineNewPayloads": [] } }"#),
        ("DifficultyTests/fork.json", r#"{ "x": { "_info": {}, "Amsterdam": { "a": {} } } }"#),
        ("TransactionTests/fork.json", r#"{ "x": { "txbytes": "0x", "result": { "Amsterdam": {} } } }"#),
        ("TrieTests/form.json", r#"{ "x": { "verkle": true } }"#),
        ("RLPTests/form.json", r#"{ "x": 1 }"#),
        ("GenesisTests/empty.json", "{}"),
        ("KeyStoreTests/keys.json", r#"{ "_info": {}, "x": {} }"#),
    ];

    let report = report_of(&files, &Selection::default());

    let counts = SuiteCounts { cases: 9, not_built: 9, ..SuiteCounts::default() };
    assert_eq!(report.total(), counts, "{report}");
    let text = report.to_string();
    for line in [
        "     1  files of no suite: ./",
        "     1  files of no suite: EOFTests/efStack/",
        "     1  not built: the rules of Verkle",
        "     2  not built: the rules of Amsterdam",
        "not built: a form that this runner does not know: missing field `env`",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert_eq!(report.to_json()["files_of_no_suite"]["EOFTests/efValidation"], 1);
}

#[test]
fn broken_files_fail_by_name_without_affecting_others() {
    let good = r##"{ "x": { "in": "#1", "out": "0x01" } }"##;
    let files = [
        ("RLPTests/broken.json", r#"{ "x": "#),
        ("RLPTests/good.json", good),
        ("RLPTests/text.json.gz", "no gzip and no JSON"),
    ];

    let report = report_of(&files, &Selection::default());

    let ends: Vec<_> = outcomes(&report)
        .into_iter()
        .map(|(name, outcome)| match outcome {
            Outcome::Failed(difference) => format!("{name} fails: {}", difference.field),
            other => format!("{name} {other:?}"),
        })
        .collect();
    assert_eq!(
        ends,
        [
            "RLPTests/broken.json fails: JSON",
            "RLPTests/good.json: x Passed { not_compared: 0 }",
            "RLPTests/text.json fails: JSON"
        ]
    );
    let only_good = Selection { filter: Some("good.json: x".to_owned()), ..Selection::default() };
    assert_eq!(report_of(&files, &only_good).total().cases, 1);
}

#[test]
fn a_case_is_skipped_by_name_wherever_its_suite_is() {
    let good = r##"{ "x": { "in": "#1", "out": "0x01" } }"##;
    let skips = Skips::from_toml("[[skip]]\ncase = \"RLPTests/a.json\"\nreason = \"because\"\n").unwrap();

    let report = report_of(&[("Cancun/RLPTests/a.json", good)], &Selection { skips, ..Selection::default() });

    assert_eq!(report.total().skipped, 1);
    assert!(report.to_string().contains("     1  skipped: Cancun/RLPTests/a.json: because"), "{report}");
}

#[test]
fn a_missing_folder_is_named() {
    let error = Source::folder(Path::new("/nowhere/at/all")).unwrap_err();

    assert!(error.to_string().starts_with("/nowhere/at/all: "), "{error}");
}
