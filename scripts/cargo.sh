#!/bin/sh
# Runs cargo with the project's build environment: caches outside the checkout, and ccache if it is installed.
set -eu
cache="${XDG_CACHE_HOME:-$HOME/.cache}/tenon"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$cache/target}"
if command -v ccache >/dev/null 2>&1; then
    export CC="${CC:-ccache gcc}" CXX="${CXX:-ccache g++}"
fi
exec cargo "$@"
