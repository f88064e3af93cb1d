#!/usr/bin/env python3
"""Breaks rules of the chain on purpose, one at a time, and checks that a test fails for each.

A mutant of `rules.toml` is a wrong rule: an exact piece of a file, and the text that replaces it. Mutants are built and tested
in a copy of the tree: the newest commit with the changes that are not committed yet, in a temporary folder with a build folder
of its own. Fails if a mutant survives or does not compile, if its piece of source is not found exactly once, or if its test
does not pass without it.

  run.py [WORD...]    all mutants, or those with one of these texts in their name, rule, file or test
  run.py --check      only checks that every piece of source is found exactly once
"""

import argparse
import collections
import contextlib
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = pathlib.Path(__file__).with_name("rules.toml")
MEMBERS = {"name", "rule", "file", "source", "replacement", "test"}
#: Time limit, because a mutant may loop forever. Without a mutant, the slowest test of the table takes a minute.
TEST_SECONDS = 600

Mutant = collections.namedtuple("Mutant", sorted(MEMBERS))
#: `is_caught` says whether a test failed; `text` names it, or describes the problem.
Outcome = collections.namedtuple("Outcome", ["is_caught", "text"])


def read_table(table=TABLE):
    """The mutants; a ValueError names an entry of another form."""
    mutants = []
    for entry in tomllib.loads(table.read_text(encoding="utf-8"))["mutant"]:
        if set(entry) != MEMBERS or not all(isinstance(value, str) for value in entry.values()):
            raise ValueError(f"mutant {entry.get('name')}: its members must be {', '.join(sorted(MEMBERS))}, all of them texts")
        mutants.append(Mutant(**entry))
    names = collections.Counter(mutant.name for mutant in mutants)
    if twice := [name for name, count in names.items() if count > 1]:
        raise ValueError(f"several mutants have the name {', '.join(twice)}")
    return mutants


def problems(mutants, root=ROOT):
    """A line for each mutant that cannot be applied to this tree."""
    lines = []
    for mutant in mutants:
        path = root / mutant.file
        found = path.read_text(encoding="utf-8").count(mutant.source) if path.is_file() else 0
        if found != 1:
            lines.append(f"{mutant.name}: its source is found {found} times in {mutant.file}, not once")
        elif mutant.source == mutant.replacement:
            lines.append(f"{mutant.name}: its replacement is its source")
    return lines


def git(*arguments):
    """Runs git in the project and returns its output. It signs the temporary commit with a name that is always there."""
    identity = ["-c", "user.name=mutants", "-c", "user.email=mutants@localhost"]
    return subprocess.run(["git", "-C", str(ROOT), *identity, *arguments], check=True, capture_output=True, text=True).stdout.strip()


@contextlib.contextmanager
def copy_of_the_tree():
    """A folder with the tracked files as they are now."""
    with tempfile.TemporaryDirectory(prefix="tenon-mutants-") as folder:
        copy = pathlib.Path(folder) / "tree"
        git("worktree", "add", "--quiet", "--detach", str(copy), git("stash", "create") or "HEAD")
        try:
            yield copy
        finally:
            git("worktree", "remove", "--force", str(copy))


def cargo_test(copy, arguments, timeout=None):
    """Runs `cargo test` in the copy; returns its exit code, None if it was ended after `timeout` seconds, and its output."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tenon"
    target = os.environ.get("TENON_MUTANTS_TARGET_DIR") or str(cache / "target-mutants")
    # The copy's own has another path in each run, so that the files of all runs would pile up in the build folder.
    wrapper = str(ROOT / "scripts" / "rustc.sh")
    process = subprocess.Popen(
        [copy / "scripts" / "cargo.sh", "test", *arguments], cwd=copy, start_new_session=True, text=True, errors="replace",
        env=os.environ | {"CARGO_TARGET_DIR": target, "RUSTC_WORKSPACE_WRAPPER": wrapper}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        # Also if this program is interrupted, because cargo and the test are in a session of their own.
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def tail(output, lines=20):
    return "\n".join(output.splitlines()[-lines:])


def problem_without_mutant(copy, test):
    """Runs a test on the unchanged copy; returns None if it passes, otherwise what is wrong with it."""
    code, output = cargo_test(copy, shlex.split(test))
    if code != 0:
        return f"cargo test {test}: fails without a mutant\n{tail(output)}"
    passed = sum(map(int, re.findall(r"^test result: ok\. (\d+) passed", output, flags=re.M)))
    return None if passed else f"cargo test {test}: there is no such test"


def try_out(copy, mutant):
    """Makes the mutant in the copy, runs its test, and restores the file."""
    path, arguments = copy / mutant.file, shlex.split(mutant.test)
    original = path.read_text(encoding="utf-8")
    path.write_text(original.replace(mutant.source, mutant.replacement), encoding="utf-8")
    try:
        code, output = cargo_test(copy, [*arguments, "--no-run"])
        if code != 0:
            return Outcome(False, f"does not compile\n{tail(output)}")
        return judged(*cargo_test(copy, arguments, TEST_SECONDS))
    finally:
        # The restored file has a new modification time, so that the next build compiles it again.
        path.write_text(original, encoding="utf-8")


def judged(code, output):
    """The outcome of a mutant's test with this exit code and output."""
    failed = re.findall(r"^test (.+) \.\.\. FAILED$", output, flags=re.M)
    if code is None:
        return Outcome(False, f"no end within {TEST_SECONDS} s")
    if code == 0:
        return Outcome(False, "SURVIVED")
    if not failed:
        return Outcome(False, f"ended with {code}, and no test failed\n{tail(output)}")
    return Outcome(True, failed[0] if len(failed) == 1 else f"{failed[0]} and {len(failed) - 1} more")


def run(mutants):
    """Runs all mutants; returns whether each was caught."""
    with copy_of_the_tree() as copy:
        tests = list(dict.fromkeys(mutant.test for mutant in mutants))
        print(f"{len(tests)} tests without a mutant; the first build takes minutes", flush=True)
        failures = [failure for test in tests if (failure := problem_without_mutant(copy, test))]
        if failures:
            print("\n".join(failures))
            return False
        outcomes = []
        for number, mutant in enumerate(mutants, 1):
            begun = time.monotonic()
            outcomes.append(try_out(copy, mutant))
            seconds = time.monotonic() - begun
            print(f"{number:>3}/{len(mutants)} {mutant.name:<34} {seconds:>4.0f} s  {outcomes[-1].text}", flush=True)
    caught = sum(outcome.is_caught for outcome in outcomes)
    print(f"\n{caught} of {len(mutants)} mutants caught")
    for mutant, outcome in zip(mutants, outcomes):
        if not outcome.is_caught:
            print(f"  {mutant.name}: {mutant.rule}: {outcome.text.splitlines()[0]}")
    return caught == len(mutants)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--check", action="store_true", help="only check that every piece of source is found exactly once")
    arguments = parser.parse_args()
    mutants = read_table()
    if stale := problems(mutants):
        print("\n".join(stale), f"{len(stale)} mutants of {TABLE.relative_to(ROOT)} do not fit the source any more", sep="\n")
        return 1
    if arguments.check:
        print(f"{len(mutants)} mutants fit the source")
        return 0
    chosen = [
        mutant for mutant in mutants
        if not arguments.words or any(word in part for word in arguments.words for part in mutant)
    ]
    if not chosen:
        parser.error(f"no mutant with {' or '.join(arguments.words)} in it")
    return 0 if run(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
