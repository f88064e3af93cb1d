#!/bin/sh
# Runs all tests, or the suites named as arguments:
#   rust         the tests of all crates
#   conformance  public JSON-RPC cases
#   recorded     the reference client's recorded answers about its chains
#   network      peers; with TENON_REFERENCE=PATH also the reference client
#   faults       kills, full disks, damaged files, hostile clients
#   clients      real clients in Python and JavaScript
#   modules      modules that are loaded, replaced and unloaded under load
# All but `rust` drive the real program.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/tenon"
target="${CARGO_TARGET_DIR:-$cache/target}"
suites="${*:-rust conformance recorded network faults clients modules}"

# Builds the program and the plugins for all suites, in one profile to keep the build short. `--examples` enables the features
# of development dependencies, as `cargo test` does. Without them most crates would be compiled again for the Rust suite.
scripts/cargo.sh build --workspace --lib --bins --examples

# With TENON_WORKSPACE_BUILT, tests that need plugins use these instead of building them with other features.
export TENON_BIN="$target/debug/tenon" TENON_NODE_MODULES="$cache/node/node_modules" TENON_WORKSPACE_BUILT=1
# The abuse tests write their figures to this file, for the table at the end.
TENON_FIGURES=$(mktemp)
export TENON_FIGURES
trap 'rm -f "$TENON_FIGURES"' EXIT
# Two tests at a time, because each spends much of its time waiting for a node. A test that hangs fails after ten minutes with the
# stacks of all threads, so that the other tests run. The slowest are listed, because they decide how long a suite takes.
pytest() {
    "$cache/python/bin/python" -m pytest -q -p no:cacheprovider --numprocesses=2 --timeout=600 --durations=8 --durations-min=20 "$@"
}
for suite in $suites; do
    printf '\n== %s\n' "$suite"
    # Repeated for each suite, because a build in between, such as that of one Rust test, replaces plugins.
    scripts/list-plugins.sh "$target/debug"
    case "$suite" in
        rust) scripts/test-rust.py ;;
        conformance) pytest tests/conformance ;;
        recorded) pytest tests/recorded ;;
        network) pytest tests/network ;;
        modules)
            "$target/debug/tenon-modules-bench" --tenon "$TENON_BIN" --libraries "$target/debug" \
                --operations 40 --replacements 20 --connections 24 --quiet 1
            ;;
        faults) pytest tests/faults ;;
        clients)
            pytest tests/clients
            node --test --test-timeout=600000 --test-reporter=spec tests/clients/*.test.mjs
            ;;
        *)
            echo "unknown suite $suite; there are: rust conformance recorded network faults clients modules" >&2
            exit 2
            ;;
    esac
done

if [ -s "$TENON_FIGURES" ]; then
    printf '\n== abuse tests, short form; `make abuse` runs the long one\n'
    "$cache/python/bin/python" tests/faults/figures.py "$TENON_FIGURES"
fi
