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
# Checkouts share this cache, but must share only the crates of others. The wrapper's path is a part of the file names that cargo
# gives to the crates of the workspace, so each checkout has its own. Without it, cargo would use crates that another checkout has
# built later, with the code and paths of that checkout. Programs and plugins have no such names: target/debug and target/release
# contain those of the last checkout that compiled them. Lint results are shared too, because clippy sets a wrapper of its own.
export RUSTC_WORKSPACE_WRAPPER="${RUSTC_WORKSPACE_WRAPPER:-$root/scripts/rustc.sh}"
exec cargo "$@"
