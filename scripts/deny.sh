#!/bin/sh
# Checks the licences, sources and versions of all dependencies, and their security advisories if the database is reachable.
# Installs cargo-deny outside the checkout if it is missing.
set -eu
cd "$(dirname "$0")/.."
cache="${XDG_CACHE_HOME:-$HOME/.cache}/tenon"
tool="$cache/tools/bin/cargo-deny"
if [ ! -x "$tool" ]; then
    CARGO_TARGET_DIR="$cache/target-tools" cargo install cargo-deny --version 0.20.2 --locked --quiet --debug --root "$cache/tools"
fi
"$tool" --locked check --hide-inclusion-graph bans licenses sources
# The advisory database is a git repository that not every machine can reach.
if timeout 120 "$tool" --locked fetch db >/dev/null 2>&1; then
    "$tool" --locked check --hide-inclusion-graph --disable-fetch advisories
else
    echo "advisories: the database is not reachable from here; not checked"
fi
