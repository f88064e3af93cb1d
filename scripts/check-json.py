#!/usr/bin/env python3
"""Checks that only plugins, the SDK and front-ends read and write JSON.

If a crate of `core/api`, `core/bus`, `core/supervisor` or `modules` depends on `serde_json` outside its tests, a comment above the
dependency must give the reason: a file or a protocol whose format is JSON.
"""

import pathlib
import re
import subprocess
import sys

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
        print(f"{name}: depends on serde_json without a reason above: JSON belongs to plugins and the SDK", file=sys.stderr)
    if wrong:
        sys.exit(1)
    print(f"JSON: {len(manifests)} crates below the plugins have none, or a reason")


if __name__ == "__main__":
    main()
