#!/usr/bin/env python3
"""Checks that only a few places in the code compare a chain's family (native or Ethereum), or whose tracers it has.

Allowed are the native crates (`modules/native`), `core/node`, which chooses the crates, `config` and the files listed
in `TABLES`. Tests, benches and fuzz targets are not checked.

Also checks that no other crate of `modules` depends on a native crate, and that a crate of `modules` depends on the
interface crate of another module instead of the module itself. Exceptions are dependencies of tests, and those listed
in `MODULE_EDGES`.

Also checks that the public Ethereum suites (`tests/ethereum`), and the other crates of `modules` with their tests, are built
and run without any native crate.
"""

import pathlib
import re
import subprocess
import sys
import tomllib

MAY_ASK = ("modules/native/", "core/node/", "config/", "benches/", "fuzz/", "tests/")
# Tables of what differs by family: the only other files that may compare it.
TABLES = (
    "plugins/eth/src/dialect.rs",
    "plugins/sdk/src/shapes/family_members.rs",
    "plugins/sdk/src/shapes/tracers/mod.rs",
    "plugins/consensus/src/family.rs",
    # The format of headers: one with the native items is encoded differently, and its block has no withdrawals.
    "modules/chain/src/codec/header.rs",
    # The words of errors of traces. A failure comes with its `TracerDialect`.
    "plugins/sdk/src/error_texts/traces.rs",
    # The JSON forms of traces. A result comes with its `TracerDialect`; a plugin has no family trait.
    "plugins/sdk/src/shapes/traces/accounts.rs",
    "plugins/sdk/src/shapes/traces/calls.rs",
    "plugins/sdk/src/shapes/traces/mod.rs",
    "plugins/sdk/src/shapes/traces/steps.rs",
)
# The enums that name a family: `Profile`, `TracerDialect`, and any other `…Dialect`.
VALUE = r"\b(?:Profile|\w*Dialect)::\w+"
# Matches comparisons of a family only, not uses of it as a value.
QUESTION = re.compile(
    rf"[=!]=\s*(?:\w+::)*{VALUE}|{VALUE}\s*(?:=>|if\b|\||[=!]=)|\{{\s*{VALUE}|matches!\(.*{VALUE}|\blet\b[^=]*{VALUE}[^=]*="
    r"|\bis_native\(|\.native\b|\bnative\(\)|\bNativeSettings::of(_mut)?\("
    # Only native headers have a seal of their own.
    r"|\.native_seal(\.as_ref\(\))?\.is_(some|none)(_and|_or)?\(|\b(match|if let|while let)\b.*\.native_seal\b"
    r"|\blet\b.*\.native_seal\b.*\belse\b|matches!\(.*\.native_seal\b"
)
TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod \w+ \{", re.M)
TEST_FILE = re.compile(r"(^|/)(tests?|benches|examples)(/|\.rs$)|_tests?\.rs$|(^|/)build\.rs$")

# Modules that native crates extend through an interface crate.
MODULES = ("tenon-consensus", "tenon-execution", "tenon-execution-block", "tenon-simulation", "tenon-txpool")
# The importer, the simulation and its traces execute blocks with the same steps (ARCHITECTURE.md).
BLOCK_EXECUTION_USERS = ("execution", "simulation", "simulation/traces")
MODULE_EDGES = {(f"modules/{name}/Cargo.toml", "tenon-execution-block") for name in BLOCK_EXECUTION_USERS}


def questions(text):
    """The number of lines of product code that compare the family."""
    product = TESTS.split(text)[0]
    lines = (line.split("//")[0] for line in product.splitlines())
    return sum(bool(QUESTION.search(line)) for line in lines)


def wrong_dependencies():
    """The problems of the manifests."""
    names = subprocess.run(["git", "ls-files", "modules/*Cargo.toml"], capture_output=True, text=True, check=True)
    for name in names.stdout.split():
        if not pathlib.Path(name).exists():
            continue
        manifest = tomllib.loads(pathlib.Path(name).read_text())
        is_native = name.startswith("modules/native/")
        for crate in manifest.get("dependencies", {}):
            if crate in MODULES and (name, crate) not in MODULE_EDGES:
                yield f"{name}: depends on {crate}: use {crate}-interface"
            elif not is_native and crate.startswith("tenon-native-"):
                yield f"{name}: depends on {crate}: a module takes the native implementation as a trait object"


def all_manifests():
    """The manifests of the project by their paths."""
    names = subprocess.run(["git", "ls-files", "*Cargo.toml"], capture_output=True, text=True, check=True).stdout.split()
    return {name: tomllib.loads(pathlib.Path(name).read_text()) for name in names if pathlib.Path(name).exists()}


def native_crates_of(own, manifests):
    """The native crates that the crate with the manifest `own` and its tests are built with."""
    crates = {manifest["package"]["name"]: manifest for manifest in manifests.values() if "package" in manifest}
    waiting, reached = [*own.get("dependencies", {}), *own.get("dev-dependencies", {})], set()
    while waiting:
        crate = waiting.pop()
        if crate in crates and crate not in reached:
            reached.add(crate)
            waiting += [*crates[crate].get("dependencies", {}), *crates[crate].get("build-dependencies", {})]
    return sorted(crate for crate in reached if crate.startswith("tenon-native-"))


def crates_built_with_native_ones():
    """The problems of the crates that must be built and tested without native crates."""
    manifests = all_manifests()
    for name, own in sorted(manifests.items()):
        is_module = name.startswith("modules/") and not name.startswith("modules/native/")
        if is_module or name == "tests/ethereum/Cargo.toml":
            for crate in native_crates_of(own, manifests):
                yield f"{name}: it or its tests are built with {crate}: tests of native chains belong to the native crates"


def main():
    names = subprocess.run(["git", "ls-files", "*.rs"], capture_output=True, text=True, check=True).stdout.split()
    names = [name for name in names if not name.startswith(MAY_ASK + TABLES) and not TEST_FILE.search(name)]
    found = {name: questions(pathlib.Path(name).read_text()) for name in names if pathlib.Path(name).exists()}
    problems = [*wrong_dependencies(), *crates_built_with_native_ones()]
    for name, count in sorted(found.items()):
        if count:
            problems.append(f"{name}: {count} lines compare the chain's family; call a method of a family trait instead")
    print("\n".join(problems) or f"{len(found)} files do not compare the chain's family")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
