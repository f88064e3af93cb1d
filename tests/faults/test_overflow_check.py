"""The check of overflow (`make lint`) must find a crate with rules that releases do not check, and an entry without a crate."""

import functools

import lint_scripts

check = functools.partial(lint_scripts.check, "check-overflow.py")


def tree(checked, crates):
    profiles = "".join(f"[profile.release.package.{name}]\noverflow-checks = true\n" for name in checked)
    files = {f"modules/native/{name}/Cargo.toml": f'[package]\nname = "{name}"\n' for name in crates}
    return {"Cargo.toml": profiles or "[profile.release.package]\n", **files}


def test_crates_with_entries_pass(tmp_path):
    code, words = check(tmp_path, tree(["one", "two"], ["one", "two", "tenon-recovery"]))

    assert code == 0, words
    assert "2 crates" in words


def test_a_crate_without_an_entry_is_named(tmp_path):
    code, words = check(tmp_path, tree(["one"], ["one", "two"]))

    assert (code, words.startswith("two: needs")) == (1, True), words


def test_an_entry_without_a_crate_is_named(tmp_path):
    code, words = check(tmp_path, tree(["one", "two"], ["one"]))

    assert (code, words.startswith("two: ")) == (1, True), words


def test_a_folder_without_crates_is_an_error_with_a_text(tmp_path):
    code, words = check(tmp_path, tree([], []))

    assert (code, "no crates" in words) == (1, True), words
