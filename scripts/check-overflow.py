#!/usr/bin/env python3
"""Checks that releases check overflow in every crate with rules of consensus or execution.

Each crate of the rooms below needs `overflow-checks = true` in a `[profile.release.package]` of the workspace's Cargo.toml: a crate
that is split off another one does not inherit its entry.
"""

import pathlib
import sys
import tomllib

ROOMS = ("modules/chain", "modules/consensus", "modules/execution", "modules/simulation", "modules/native")

WITHOUT_RULES = {
    "tenon-recovery": "its vector code wraps by design, and its results are compared with those of a library",
    "tenon-reference-data": "reads the data folder of a stopped reference node",
    "tenon-javascript": "runs scripts of traces in a process of their own",
}


def main():
    profiles = tomllib.loads(pathlib.Path("Cargo.toml").read_text())["profile"]["release"]["package"]
    checked = {name for name, profile in profiles.items() if profile.get("overflow-checks")}
    manifests = [path for room in ROOMS for path in pathlib.Path(room).rglob("Cargo.toml")]
    names = {tomllib.loads(path.read_text())["package"]["name"] for path in manifests}
    if not names:
        sys.exit("overflow: there are no crates in modules; run this in the repository")
    problems = [f"{name}: needs [profile.release.package.{name}] with overflow-checks = true in Cargo.toml" for name in names - checked - WITHOUT_RULES.keys()]
    problems += [f"{name}: Cargo.toml checks its overflow, but it is no crate of {', '.join(ROOMS)}" for name in checked - names]
    for problem in sorted(problems):
        print(problem, file=sys.stderr)
    if problems:
        sys.exit(1)
    print(f"overflow: releases check it in {len(checked)} crates")


if __name__ == "__main__":
    main()
