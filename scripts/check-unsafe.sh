#!/bin/sh
# Checks that unsafe code occurs only in the plugin boundary (core/host, plugins/sdk, example and test plugins), in the system
# calls with which a process restricts itself (core/sandbox), and in the vector code of signature recovery, and that every other
# crate forbids or denies it.
set -eu
cd "$(dirname "$0")/.."
boundary='^(core/host|core/sandbox|plugins/sdk|plugins/examples|tests/plugins|modules/chain/recovery/src/lanes)/'
found=$(git ls-files -co --exclude-standard '*.rs' | grep -Ev "$boundary" | xargs grep -nE '\bunsafe[[:space:]]*(\{|fn\b|impl\b|extern\b)' |
    grep -vE 'unsafe extern "C" fn\(|^[^:]*:[0-9]+:[[:space:]]*//' | grep -v '^core/api/src/abi.rs:' || true)
if [ -n "$found" ]; then
    printf 'unsafe code outside the plugin boundary, core/sandbox and modules/chain/recovery/src/lanes:\n%s\n' "$found" >&2
    exit 1
fi
checked=0
for file in $(git ls-files -co --exclude-standard '*/src/lib.rs' '*/src/main.rs' | grep -Ev "$boundary"); do
    if ! grep -qE '^#!\[(forbid|deny)\(unsafe_code\)\]' "$file"; then
        echo "$file lacks #![forbid(unsafe_code)]" >&2
        exit 1
    fi
    checked=$((checked + 1))
done
echo "unsafe code: only in the plugin boundary, core/sandbox and the vectors of signature recovery; $checked crates forbid it"
