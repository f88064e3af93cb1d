//! `tenon module new`: the written crate builds outside of the workspace, passes its own tests and the check, and
//! serves.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{RunningNode, run, tenon, text};

/// Runs cargo offline in a crate outside the workspace.
fn cargo(folder: &Path, arguments: &[&str]) {
    // Kept between runs, so that its dependencies are built only once.
    let target = Path::new(env!("CARGO_BIN_EXE_tenon")).parent().unwrap().parent().unwrap().join("new-plugin");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder).args(arguments).arg("--offline").arg("--target-dir").arg(target);
    // Compiling the dependencies takes most of the test's time, and their debug information a good part of that.
    command.env("CARGO_PROFILE_DEV_DEBUG", "false");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
}

fn library() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_tenon")).parent().unwrap().parent().unwrap().join("new-plugin/debug/libtokens.so")
}

#[test]
fn a_new_plugin_builds_passes_its_tests_and_the_check_and_serves() {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut new = tenon();
    new.current_dir(folder.path()).args(["module", "new", "tokens", "--sdk"]).arg(root.join("plugins/sdk"));
    let written = new.output().unwrap();
    assert!(written.status.success(), "{}", text(&written.stderr));
    let crate_folder = folder.path().join("tokens");
    // The available versions: offline, cargo can't choose others.
    std::fs::copy(root.join("Cargo.lock"), crate_folder.join("Cargo.lock")).unwrap();

    cargo(&crate_folder, &["test"]);
    cargo(&crate_folder, &["build"]);
    let checked = run(&["module", "check", library().to_str().unwrap()]);

    assert!(checked.status.success(), "{}{}", text(&checked.stdout), text(&checked.stderr));
    assert!(text(&checked.stdout).starts_with("tokens 1.0: 1 method, 1 subscription,"), "{}", text(&checked.stdout));
    let own = folder.path().join("libtokens.so");
    std::fs::copy(library(), &own).unwrap();
    let settings = folder.path().join("node.toml");
    std::fs::write(&settings, format!("[plugins.tokens]\npath = {own:?}\ncapabilities = [\"ReadChain\"]\n")).unwrap();
    let data = folder.path().join("data");
    let node = RunningNode::start_dev(&["--datadir", data.to_str().unwrap(), "--config", settings.to_str().unwrap()]);
    let answer = node.ask_socket(r#"{"jsonrpc":"2.0","id":1,"method":"tokens_above","params":["0x10"]}"#);
    assert!(answer.contains("\"result\":false"), "{answer}");
}
