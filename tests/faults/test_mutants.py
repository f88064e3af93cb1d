"""The runner of mutants (`make mutants`) must tell a caught mutant from every other outcome, and leave the tree as it was."""

import json
import pathlib
import shutil
import subprocess
import sys

import pytest

RUNNER = pathlib.Path(__file__).parents[1] / "mutants" / "run.py"
#: Replaces cargo: the test passes if the rule is "right"; the rule compiles unless it is "broken"; the test "other" does not exist.
CARGO = """#!/bin/sh
! grep -q broken rule || exit 101
case "$*" in *--no-run) exit 0 ;; esac
case "$*" in *other*) echo "test result: ok. 0 passed; 0 failed"; exit 0 ;; esac
! grep -q stopped rule || exit 134
if grep -q right rule; then
    echo "test result: ok. 1 passed; 0 failed"
else
    echo "test the_rule_holds ... FAILED"
    exit 101
fi
"""


@pytest.fixture
def project(tmp_path):
    """A repository with a rule and the runner."""
    (tmp_path / "scripts").mkdir()
    cargo = tmp_path / "scripts" / "cargo.sh"
    cargo.write_text(CARGO)
    cargo.chmod(0o755)
    (tmp_path / "tests" / "mutants").mkdir(parents=True)
    shutil.copy(RUNNER, tmp_path / "tests" / "mutants")
    (tmp_path / "rule").write_text("the right rule")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    return tmp_path


def run(project, *mutants, arguments=()):
    """Runs these mutants of the rule; returns the exit code and the output."""
    table = ""
    for number, mutant in enumerate(mutants):
        entry = {"name": f"m{number}", "rule": "of the test", "file": "rule", "source": "right", "test": "rule"} | mutant
        table += "[[mutant]]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in entry.items())
    (project / "tests" / "mutants" / "rules.toml").write_text(table)
    done = subprocess.run(
        [sys.executable, str(project / "tests" / "mutants" / "run.py"), *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert (project / "rule").read_text().startswith("the "), "the tree itself was changed"
    listed = subprocess.run(["git", "-C", str(project), "worktree", "list"], capture_output=True, text=True, check=True).stdout
    assert len(listed.splitlines()) == 1, "the copy is left"
    return done.returncode, done.stdout + done.stderr


def test_a_mutant_is_caught_if_its_test_fails(project):
    code, said = run(project, {"replacement": "wrong"}, {"replacement": "other"})
    assert code == 0 and "the_rule_holds" in said and "2 of 2 mutants caught" in said, said


@pytest.mark.parametrize(
    ("mutant", "word"),
    [
        ({"replacement": "right enough"}, "SURVIVED"),
        ({"replacement": "broken"}, "does not compile"),
        ({"replacement": "stopped"}, "no test failed"),
        ({"replacement": "wrong", "test": "other"}, "there is no such test"),
        ({"replacement": "wrong", "source": "r"}, "found 2 times in rule"),
        ({"replacement": "wrong", "source": "absent"}, "found 0 times in rule"),
        ({"replacement": "wrong", "file": "absent"}, "found 0 times in absent"),
        ({"replacement": "right"}, "its replacement is its source"),
    ],
)
def test_every_other_outcome_fails(project, mutant, word):
    code, said = run(project, {"replacement": "wrong"}, mutant)
    assert code == 1 and word in said, said


def test_a_test_that_fails_without_a_mutant_catches_nothing(project):
    # A change that is not committed is part of the copy.
    (project / "rule").write_text("the right rule, but stopped")
    code, said = run(project, {"replacement": "wrong"})
    assert code == 1 and "fails without a mutant" in said, said


def test_a_check_runs_nothing_and_words_choose(project):
    assert run(project, {"replacement": "broken"}, arguments=["--check"]) == (0, "1 mutants fit the source\n")
    code, said = run(project, {"replacement": "wrong"}, {"replacement": "right enough"}, arguments=["m0"])
    assert code == 0 and "1 of 1 mutants caught" in said, said
    code, said = run(project, {"replacement": "wrong"}, arguments=["absent"])
    assert code == 2 and "no mutant with absent" in said, said


def test_the_table_fits_the_source():
    done = subprocess.run([sys.executable, str(RUNNER), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
