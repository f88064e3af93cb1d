"""The check of JSON (`make lint`) must find a dependency without a reason and errors of JSON-RPC in modules, and accept the others."""

import functools

import lint_scripts

MODULE = "modules/one/src/lib.rs"
check = functools.partial(lint_scripts.check, "check-json.py")


def test_a_dependency_with_a_reason_and_errors_in_tests_pass(tmp_path):
    tests = ("modules/one/tests/calls.rs", "modules/one/src/tests.rs", "modules/one/src/tests/calls.rs", "core/host/src/stream.rs")
    files = dict.fromkeys(tests, "use tenon_sdk::{Failure, FailureCode};")
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
