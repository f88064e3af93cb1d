#!/bin/sh
# Runs rustc for the crates of this checkout, see scripts/cargo.sh.
exec "$@"
