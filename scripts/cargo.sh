#!/bin/sh
# Runs cargo with the project's build environment: caches outside the checkout, and ccache if it is installed.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cache="${XDG_CACHE_HOME:-$HOME/.cache}/tenon"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$cache/target}"
if command -v ccache >/dev/null 2>&1; then
    export CC="${CC:-ccache gcc}"
fi
# A copy outside the checkout, because RocksDB is built again if the compiler's path changes.
if command -v g++ >/dev/null 2>&1 && [ -z "${CXX:-}" ]; then
    cmp -s "$root/scripts/cxx.sh" "$cache/cxx.sh" || { mkdir -p "$cache" && cp "$root/scripts/cxx.sh" "$cache/cxx.sh.$$" && mv "$cache/cxx.sh.$$" "$cache/cxx.sh"; }
    export CXX="$cache/cxx.sh"
fi
# Checkouts share this cache, but only their dependencies: cargo gives crates of the workspace other file names for another
# wrapper. Without it, cargo takes crates that another checkout built later for up to date, with that checkout's code and paths.
# Programs and plugins have no such names: those in target/debug and target/release are from the last checkout that compiled
# them. Lint results are shared, too, because clippy sets a wrapper of its own.
export RUSTC_WORKSPACE_WRAPPER="${RUSTC_WORKSPACE_WRAPPER:-$root/scripts/rustc.sh}"
exec cargo "$@"
