#!/bin/sh
# Runs cargo with the project's build environment: caches outside the checkout, and ccache if it is installed.
set -eu
cache="${XDG_CACHE_HOME:-$HOME/.cache}/tenon"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$cache/target}"
if command -v ccache >/dev/null 2>&1; then
    export CC="${CC:-ccache gcc}" CXX="${CXX:-ccache g++}"
fi
# Checkouts share this cache, but only their dependencies: cargo gives crates of the workspace other file names for another
# wrapper. Without it, cargo takes crates that another checkout built later for up to date, with that checkout's code and paths.
# Programs and plugins have no such names: those in target/debug and target/release are from the last checkout that compiled
# them. Lint results are shared, too, because clippy sets a wrapper of its own.
export RUSTC_WORKSPACE_WRAPPER="${RUSTC_WORKSPACE_WRAPPER:-$(cd "$(dirname "$0")" && pwd)/rustc.sh}"
exec cargo "$@"
