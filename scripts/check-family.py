#!/usr/bin/env python3
"""Checks that only a few places in the code compare a chain's family (native or Ethereum), or whose tracers it has.

Allowed are the native crates (`modules/native`), `core/node/src/family`, which chooses the crates, `config` and the files
listed in `TABLES`. Tests, benches and fuzz targets are not checked.

Also checks that no other crate depends on a native crate, not even its tests, but `core/node` and those in
`NATIVE_USERS`; that only `core/node/src/family` and the files in `NATIVE_FILES` name one in `core/node`; and that a crate
of `modules` depends on the interface crate of another module instead of the module itself, except in tests and for the
dependencies in `MODULE_EDGES`.

Also checks that the public Ethereum suites (`tests/ethereum`), and the other crates of `modules` with their tests, are built
and run without any native crate.
"""

import pathlib
import re
import subprocess
import sys
import tomllib

MAY_ASK = ("modules/native/", "core/node/src/family/", "config/", "benches/", "fuzz/", "tests/")
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
# The enums that name a family: `Profile`, `DevProfile`, `TracerDialect`, and any other `…Dialect`.
VALUE = r"\b(?:Profile|DevProfile|\w*Dialect)::\w+"
# Matches comparisons of a family only, not uses of it as a value.
QUESTION = re.compile(
    rf"[=!]=\s*(?:\w+::)*{VALUE}|{VALUE}\s*(?:=>|if\b|\||[=!]=)|\{{\s*{VALUE}|matches!\(.*{VALUE}|\blet\b[^=]*{VALUE}[^=]*="
    r"|\bis_native\(|\.native\b|\bnative\(\)|\bNativeSettings::of(_mut)?\("
    # Only native headers have a seal of their own.
    r"|\.native_seal(\.as_ref\(\))?\.is_(some|none)(_and|_or)?\(|\b(match|if let|while let)\b.*\.native_seal\b"
    r"|\blet\b.*\.native_seal\b.*\belse\b|matches!\(.*\.native_seal\b"
)
# Files outside `core/node/src/family` that name a native crate. `tenon verify-headers` has no other purpose than native
# headers, so that there is no family to choose.
NATIVE_FILES = ("core/node/src/commands/verify_headers.rs",)
NATIVE_CRATE = re.compile(r"\btenon_native_\w+")
# Crates outside `modules/native` that may depend on a native crate: `core/node`, what is built for tests only, and:
NATIVE_USERS = (
    # Signs the consensus messages of native chains (`consensus_sign…`). It computes each digest itself from the parts of
    # the message that a policy judges: what is signed must not come through an interface that another crate fills.
    "device/signing/service/Cargo.toml",
)
MAY_DEPEND = ("modules/native/", "core/node/", "benches/", "fuzz/", "tests/") + NATIVE_USERS
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
    for name, manifest in all_manifests().items():
        dependencies = manifest.get("dependencies", {})
        for crate in dependencies if name.startswith("modules/") else ():
            if crate in MODULES and (name, crate) not in MODULE_EDGES:
                yield f"{name}: depends on {crate}: use {crate}-interface"
        for crate in () if name.startswith(MAY_DEPEND) else [*dependencies, *manifest.get("dev-dependencies", {})]:
            if crate.startswith("tenon-native-"):
                yield f"{name}: depends on {crate}: take the native implementation as a trait object from core/node"


def native_names(files):
    """The problems of the files of `core/node` that name a native crate."""
    for name in files:
        if name.startswith("core/node/") and name not in NATIVE_FILES:
            for crate in sorted(set(NATIVE_CRATE.findall(TESTS.split(pathlib.Path(name).read_text())[0]))):
                yield f"{name}: names {crate}: only core/node/src/family may; add a method to one of its traits"


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
    names = [name for name in names if pathlib.Path(name).exists()]
    found = {name: questions(pathlib.Path(name).read_text()) for name in names}
    problems = [*wrong_dependencies(), *crates_built_with_native_ones(), *native_names(names)]
    for name, count in sorted(found.items()):
        if count:
            problems.append(f"{name}: {count} lines compare the chain's family; call a method of a family trait instead")
    print("\n".join(problems) or f"{len(found)} files do not compare the chain's family")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
