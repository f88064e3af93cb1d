#!/usr/bin/env bash
# Runs rustc for the crates of this checkout, see scripts/cargo.sh. In bash, because dash drops variables whose names have a
# hyphen, such as CARGO_BIN_EXE_tenon-plugin-child.
exec "$@"
