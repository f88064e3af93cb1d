//! Output files named by an operator: existing data is not lost.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use support::{make_pipe, plugin_folder, recorded_chain, run, run_in_time, run_well, tenon, text};

/// A data folder with the recorded chain of the public RPC suite.
struct Chain {
    folder: tempfile::TempDir,
}

impl Chain {
    fn new() -> Self {
        let chain = Self { folder: tempfile::tempdir().unwrap() };
        let [genesis, blocks] =
            ["execution-apis/genesis.json", "execution-apis/chain.rlp.gz"].map(tenon_test_data::path);
        run_well(&[
            "import",
            "--datadir",
            &chain.text("data"),
            "--genesis",
            genesis.to_str().unwrap(),
            blocks.to_str().unwrap(),
        ]);
        chain
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// The error of a refused export, which must have exit code 2.
    fn refusal(&self, file: &str, more: &[&str]) -> String {
        let output = run_in_time(&[&["export", "--datadir", &self.text("data"), file][..], more].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{file}: {said}");
        assert!(said.contains(file), "{file}: {said}");
        said
    }
}

#[test]
fn an_export_replaces_files_only_on_request() {
    let chain = Chain::new();
    let (file, link) = (chain.text("chain.rlp"), chain.text("link"));
    fs::write(&file, "mine").unwrap();
    symlink(&file, &link).unwrap();

    for name in [&file, &link] {
        assert!(chain.refusal(name, &[]).contains("the file exists; replace it with --overwrite, or give another one"));
    }
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    run_well(&["export", "--datadir", &chain.text("data"), "--overwrite", &link, "1"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "a link stays one");
    assert!(fs::read(&file).unwrap() == recorded_chain());

    let before: Vec<_> =
        ["genesis.json", "db/CURRENT"].map(|name| fs::read(chain.path("data").join(name)).unwrap()).into();
    for name in ["data/genesis.json", "data/db/CURRENT", "data/db/new.sst", "data/keystore/key", "data/tenon.toml"] {
        assert!(chain.refusal(&chain.text(name), &["--overwrite"]).contains("belongs to the node"), "{name}");
    }
    let after: Vec<_> =
        ["genesis.json", "db/CURRENT"].map(|name| fs::read(chain.path("data").join(name)).unwrap()).into();
    assert_eq!(before, after);
    assert!(chain.refusal(&chain.text("data"), &["--overwrite"]).contains("it is a folder; give a file in it"));
    let missing = chain.refusal(&chain.text("missing/chain.rlp"), &[]);
    assert!(missing.ends_with("chain.rlp: its folder does not exist; create it, or give another file\n"), "{missing}");
}

#[test]
fn an_export_writes_to_pipes_and_to_standard_output_by_any_name() {
    let chain = Chain::new();
    let (datadir, pipe) = (chain.text("data"), chain.path("pipe"));
    make_pipe(&pipe);

    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || {
            let mut bytes = Vec::new();
            fs::File::open(pipe).unwrap().read_to_end(&mut bytes).unwrap();
            bytes
        }
    });
    run_well(&["export", "--datadir", &datadir, pipe.to_str().unwrap(), "1"]);

    assert!(reader.join().unwrap() == recorded_chain());
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo(), "it is still a pipe");
    for name in ["-", "/dev/stdout"] {
        let output = run(&["export", "--datadir", &datadir, name, "1"]);
        assert!(output.status.success() && output.stdout == recorded_chain(), "{name}: {}", text(&output.stderr));
    }
}

/// Standard error of a `tenon dev` that must be refused.
fn refused_dev(arguments: &[&str]) -> String {
    let mut command = tenon();
    command.args(["dev", "--port", "0", "--plugins"]).arg(plugin_folder()).args(arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2), "{arguments:?}: {said}");
    said
}

#[test]
fn the_pools_journal_refuses_and_keeps_a_file_that_is_not_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("notes.txt"), "not yours").unwrap();
    symlink(path("notes.txt"), path("link")).unwrap();
    make_pipe(&path("pipe"));
    let journal = |place: &Path| refused_dev(&["--txpool.journal", place.to_str().unwrap()]);

    for name in ["notes.txt", "link"] {
        assert!(journal(&path(name)).contains("has other content and was not changed"), "{name}");
    }
    assert_eq!(fs::read(path("notes.txt")).unwrap(), b"not yours");
    assert!(journal(&path("pipe")).contains("it is a pipe; choose a regular file"));
    assert!(fs::symlink_metadata(path("pipe")).unwrap().file_type().is_fifo());
    let taken = refused_dev(&["--txpool.journal", "jwt.hex"]);
    assert!(taken.contains("`txpool.journal`: ") && taken.contains(" is used by `auth.jwtsecret`"), "{taken}");
}
