#!/usr/bin/env python3
"""Checks that no module and no crate of the core below the host depends on JSON, and that no module uses the errors of JSON-RPC.

If a crate of `core/api`, `core/bus`, `core/supervisor` or `modules` depends on `serde_json` outside its tests, a comment above the
dependency must give the reason: a file or a protocol whose format is JSON. No file of `modules`, except tests in files of their own,
names `Failure` or `FailureCode`, the code and text of a JSON-RPC error: modules have error enums of their own, which become a
`BusError`.
"""

import pathlib
import re
import subprocess
import sys

FAILURE = re.compile(r"(?<![\w:])(?:tenon_sdk::)?Failure(?:Code)?\b")

TEST_FILE = re.compile(r"[/_]tests(/|\.rs$)")

BELOW_PLUGINS = ("core/api/", "core/bus/", "core/supervisor/", "modules/")


def has_reason(manifest):
    """Whether the dependency on serde_json, if there is one, has a comment above it."""
    dependencies = re.search(r"^\[dependencies\]\n(.*?)(?=^\[|\Z)", manifest, re.M | re.S)
    lines = dependencies.group(1).splitlines() if dependencies else []
    places = [place for place, line in enumerate(lines) if re.match(r"serde_json\b", line)]
    return all(place > 0 and lines[place - 1].startswith("# ") for place in places)


def main():
    names = subprocess.run(["git", "ls-files", "*Cargo.toml"], capture_output=True, text=True, check=True).stdout.split()
    manifests = [pathlib.Path(name) for name in names if name.startswith(BELOW_PLUGINS) and pathlib.Path(name).exists()]
    wrong = [str(path) for path in manifests if not has_reason(path.read_text())]
    for name in wrong:
        print(f"{name}: depends on serde_json without a comment above that gives the reason; JSON belongs to plugins and the SDK", file=sys.stderr)
    sources = subprocess.run(["git", "ls-files", "modules/*.rs"], capture_output=True, text=True, check=True).stdout.split()
    sources = [name for name in sources if pathlib.Path(name).exists() and not TEST_FILE.search(name)]
    if not sources:
        sys.exit("JSON: there are no sources in modules; run this in the repository")
    with_codes = [name for name in sources if FAILURE.search(pathlib.Path(name).read_text())]
    for name in with_codes:
        print(f"{name}: uses Failure: return the module's own error, and convert it into a BusError", file=sys.stderr)
    if wrong or with_codes:
        sys.exit(1)
    print(f"JSON: {len(manifests)} crates do not depend on serde_json or give a reason; {len(sources)} files of modules do not use Failure")


if __name__ == "__main__":
    main()
