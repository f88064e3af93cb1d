//! Settings from an operator's view: `tenon config`, and the errors.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use support::{run, run_well, tenon, text};

#[test]
fn names_the_place_and_the_fix_of_bad_settings() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.toml");
    std::fs::write(&file, "[http]\nprot = 1\n").unwrap();
    let file = file.to_str().unwrap();

    let in_file = run(&["dev", "--config", file]);
    let in_variable = tenon().arg("dev").env("TENON_HTTP_PORT", "many").output().unwrap();
    let in_flag = run(&["dev", "--verbosity", "loud"]);

    for (output, wanted) in [
        (in_file, format!("tenon: {file}:2: unknown key `http.prot`; did you mean `http.port`?")),
        (
            in_variable,
            "tenon: environment TENON_HTTP_PORT: `http.port`: expected a whole number from 0 to 65535, found `many`"
                .into(),
        ),
        (
            in_flag,
            "tenon: flag --verbosity: `log.verbosity`: expected a whole number from 0 to 255, found `loud`".into(),
        ),
    ] {
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(text(&output.stderr).trim(), wanted);
    }
}

#[test]
fn prints_a_file_that_reproduces_the_same_settings() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.toml");
    let chosen =
        ["--network", "mainnet", "--http.port", "9999", "--http.api", "eth,debug", "--rpc.evmtimeout", "1500ms"];
    let first = run_well(&[&["config"][..], &chosen].concat());
    std::fs::write(&file, &first).unwrap();

    let again = run_well(&["config", "--config", file.to_str().unwrap()]);

    let values = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split("  #").next().unwrap_or_default().trim().to_owned()).collect()
    };
    assert_eq!(values(&again), values(&first));
    let port = first.lines().find(|line| line.starts_with("port = 9999")).unwrap();
    assert!(port.ends_with("# flag --http.port"), "{port}");
}

#[test]
fn shows_the_source_of_each_value_as_json() {
    let output = tenon().args(["config", "--json", "--dev"]).env("TENON_WS_PORT", "7").output().unwrap();

    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let settings = &json["settings"];
    assert_eq!(settings["ws.port"], serde_json::json!({ "value": 7, "origin": "environment TENON_WS_PORT" }));
    assert_eq!(settings["http.port"]["origin"], "default");
    assert_eq!(settings["auth.namespaces"]["origin"], "default of `dev`");
}

#[test]
fn writes_completions_for_a_shell() {
    let script = run_well(&["completions", "bash"]);
    assert!(script.contains("--http.port") && !script.contains("--rpcport"));
}
