"""The check of JSON (`make lint`) must find a dependency without a reason and errors of JSON-RPC in modules, and accept the others."""

import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "check-json.py"
MODULE = "modules/one/src/lib.rs"


def check(folder, files):
    """Runs the script in a repository with these files; returns its exit code and output."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    subprocess.run(["git", "-C", str(folder), "init", "-q"], check=True)
    subprocess.run(["git", "-C", str(folder), "add", "."], check=True)
    done = subprocess.run([sys.executable, str(SCRIPT)], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_dependency_with_a_reason_and_errors_in_tests_pass(tmp_path):
    tests = ("modules/one/tests/calls.rs", "modules/one/src/tests.rs", "modules/one/src/tests/calls.rs", "core/api/src/failure.rs")
    files = dict.fromkeys(tests, "use tenon_api::{Failure, FailureCode};")
    files["modules/one/Cargo.toml"] = "[dependencies]\n# The file is JSON.\nserde_json.workspace = true\n"

    code, words = check(tmp_path, {MODULE: "", **files})

    assert code == 0, words
    assert "1 files" in words


def test_a_dependency_without_a_reason_is_named(tmp_path):
    code, words = check(tmp_path, {MODULE: "", "core/bus/Cargo.toml": "[dependencies]\nserde_json.workspace = true\n"})

    assert (code, words.startswith("core/bus/Cargo.toml: ")) == (1, True), words


def test_an_error_of_json_rpc_in_a_module_is_named(tmp_path):
    code, words = check(tmp_path, {MODULE: "fn fail() -> Failure {}"})

    assert (code, words.startswith(MODULE)) == (1, True), words


def test_a_folder_without_modules_is_an_error_with_a_text(tmp_path):
    code, words = check(tmp_path, {"README.md": ""})

    assert (code, "no sources" in words) == (1, True), words
