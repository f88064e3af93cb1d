#!/usr/bin/env python3
"""Checks that no room asks which family a chain belongs to.

The wing (`modules/native`), `core/node`, which chooses, and `config` may ask; tests, benches and fuzz targets are not
looked at. `EXCEPTIONS` lists the files that still ask, with the number of lines. The check fails if a file asks more often,
and also if it asks less often, so that the list shrinks with the code.

Also checks that no crate of `modules` outside the wing depends on a crate of the wing, except in its tests.
"""

import pathlib
import re
import subprocess
import sys
import tomllib

MAY_ASK = ("modules/native/", "core/node/", "config/", "benches/", "fuzz/", "tests/")
QUESTION = re.compile(r"Profile::(?:Native|Ethereum)|\bis_native\(|\.native\b|\bnative\(\)")
TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod \w+ \{", re.M)
TEST_FILE = re.compile(r"(^|/)(tests?|benches|examples)(/|\.rs$)|_tests?\.rs$|(^|/)build\.rs$")

# The format of a chain's settings, and what namespaces show by family.
EXCEPTIONS = {
    "device/signing/service/src/methods/ethereum.rs": 1,
    "modules/chain/src/genesis/mod.rs": 6,
    "modules/chain/src/genesis/schedule.rs": 1,
    "modules/chain/src/spec/fees.rs": 2,
    "modules/chain/src/spec/mod.rs": 13,
    "modules/chain/src/spec/rules.rs": 1,
    "plugins/consensus/src/lib.rs": 2,
    "plugins/debug/src/bad_blocks.rs": 1,
    "plugins/debug/src/reexecution.rs": 1,
    "plugins/eth/src/calls.rs": 3,
    "plugins/eth/src/chain.rs": 3,
    "plugins/eth/src/changes.rs": 2,
    "plugins/eth/src/config.rs": 1,
    "plugins/eth/src/criteria.rs": 1,
    "plugins/eth/src/event_logs.rs": 1,
    "plugins/eth/src/fees.rs": 1,
    "plugins/eth/src/fuzzing.rs": 2,
    "plugins/eth/src/go_rlp.rs": 1,
    "plugins/eth/src/lib.rs": 4,
    "plugins/eth/src/logs.rs": 9,
    "plugins/eth/src/mining.rs": 2,
    "plugins/eth/src/native.rs": 2,
    "plugins/eth/src/state.rs": 3,
    "plugins/eth/src/subscriptions.rs": 2,
    "plugins/sdk/src/shapes/block.rs": 4,
    "plugins/sdk/src/shapes/log.rs": 1,
    "plugins/sdk/src/shapes/transaction.rs": 3,
    "plugins/sdk/src/testing/chain.rs": 1,
}


def questions(text):
    """The number of lines of product code that ask."""
    product = TESTS.split(text)[0]
    lines = (line.split("//")[0] for line in product.splitlines())
    return sum(bool(QUESTION.search(line)) for line in lines)


def dependencies_on_the_wing():
    """What is wrong with the manifests."""
    names = subprocess.run(["git", "ls-files", "modules/*Cargo.toml"], capture_output=True, text=True, check=True)
    for name in names.stdout.split():
        if name.startswith("modules/native/") or not pathlib.Path(name).exists():
            continue
        manifest = tomllib.loads(pathlib.Path(name).read_text())
        for crate in manifest.get("dependencies", {}):
            if crate.startswith("tenon-native-"):
                yield f"{name}: depends on {crate}: a room takes the wing's implementations as trait objects"


def main():
    names = subprocess.run(["git", "ls-files", "*.rs"], capture_output=True, text=True, check=True).stdout.split()
    names = [name for name in names if not name.startswith(MAY_ASK) and not TEST_FILE.search(name)]
    found = {name: questions(pathlib.Path(name).read_text()) for name in names if pathlib.Path(name).exists()}
    problems = list(dependencies_on_the_wing())
    for name in sorted(set(found) | set(EXCEPTIONS)):
        count, allowed = found.get(name, 0), EXCEPTIONS.get(name, 0)
        if count > allowed:
            problems.append(f"{name}: {count} lines ask for the chain's family, {allowed} may: ask a trait of it")
        elif count < allowed:
            problems.append(f"{name}: {count} lines ask for the chain's family: write that in EXCEPTIONS, not {allowed}")
    print("\n".join(problems) or f"{sum(found.values())} questions for the chain's family are left, all listed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
