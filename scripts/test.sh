#!/bin/sh
# Runs all tests: Rust, then the conformance, recorded (what the reference answered about its chains), network (peers; with
# TENON_REFERENCE=PATH the reference client, too) and fault suites (Python), then real clients (Python, JavaScript) against the
# real program, and modules that come and go in it under load.
# Arguments select suites: rust conformance recorded network faults clients modules.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/tenon"
target="${CARGO_TARGET_DIR:-$cache/target}"
suites="${*:-rust conformance recorded network faults clients modules}"

# The program and the plugins that the suites drive; one profile for everything keeps the build short.
scripts/cargo.sh build --workspace

export TENON_BIN="$target/debug/tenon" TENON_NODE_MODULES="$cache/node/node_modules"
# Where tests that abuse the node put their figures, for the table at the end.
TENON_FIGURES=$(mktemp)
export TENON_FIGURES
trap 'rm -f "$TENON_FIGURES"' EXIT
# A client that waits for what never comes fails its test after ten minutes, with all stacks, instead of holding up the rest.
pytest() {
    "$cache/python/bin/python" -m pytest -q -p no:cacheprovider --timeout=600 "$@"
}
for suite in $suites; do
    printf '\n== %s\n' "$suite"
    # What is run as the program's own is what was built last, and the Rust suite builds too.
    scripts/list-plugins.sh "$target/debug"
    case "$suite" in
        rust) scripts/cargo.sh test --workspace ;;
        conformance) pytest tests/conformance ;;
        recorded) pytest tests/recorded ;;
        network) pytest tests/network ;;
        modules)
            "$target/debug/tenon-modules-bench" --tenon "$TENON_BIN" --libraries "$target/debug" \
                --operations 40 --replacements 20 --connections 24 --quiet 1
            ;;
        faults) pytest -s tests/faults ;;
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
    printf '\n== abuse, in its short form; `make abuse` is the long one\n'
    "$cache/python/bin/python" tests/faults/figures.py "$TENON_FIGURES"
fi
