#!/bin/sh
# Runs the abuse tests in their long form: 300 kills of the node, 300 during reorganisations, 100 of each command that moves or
# migrates a chain, 1,000 damaged databases, 10,000 damaged files, 10,000 malformed requests per transport, 5,000 idle clients,
# floods of slow batches, clients that make the node hold memory, a panic in every kind of handler. Prints a table of every figure
# with its limit. Fails if a test fails, a limit is exceeded, or a test ran less often than required. Time limits are enforced too,
# so nothing else should run on the machine.
#   abuse.sh [PART...]    some of: kills commands database disk files clients spoiled fairness endless memory panics folders plugins
#                         secrets accounts
#                         and only if named: signatures (100,000,000 recovered twice, an hour)
# ABUSE_SHARE: percentage of the counts (100). TENON_SEED: repeats a run. The rows are also written to abuse.json in the cache.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/tenon"
debug="${CARGO_TARGET_DIR:-$cache/target}/debug"
release="${TENON_BIN:-$root/dist/tenon}"
every="kills commands database disk files clients spoiled fairness endless memory panics folders plugins secrets accounts"
parts="${*:-$every}"
share="${ABUSE_SHARE:-100}"
report="${TENON_ABUSE_REPORT:-$cache/abuse.json}"
TENON_FIGURES=$(mktemp)
export TENON_FIGURES TENON_ABUSE=long
trap 'rm -f "$TENON_FIGURES"' EXIT

# ABUSE_SHARE percent of a count, at least one.
part_of() {
    echo $((($1 * share + 99) / 100))
}
faults() {
    program=$1
    shift
    TENON_BIN="$program" "$cache/python/bin/python" -m pytest -q -s -p no:cacheprovider --timeout=7200 "$@" || failed="$failed $part"
}
rust() {
    scripts/cargo.sh test -q "$@" || failed="$failed $part"
}

failed=""
for part in $parts; do
    printf '\n== %s\n' "$part"
    begun=$(date +%s)
    case "$part" in
        kills)
            TENON_KILLS=$(part_of 75) faults "$release" tests/faults/test_kill.py
            TENON_KILLS=$(part_of 25) faults "$release" tests/faults/test_kill_native.py
            TENON_KILLS=$(part_of 300) faults "$release" tests/faults/test_kill_reorganisation.py
            TENON_KILLS=$(part_of 300) faults "$release" tests/faults/test_kill_accounts.py
            TENON_KILLS=$(part_of 300) faults "$release" tests/faults/test_signing_service.py -k kill
            TENON_KILLS=$(part_of 300) faults "$release" tests/network/test_kill_voting.py
            TENON_KILLS=$(part_of 300) rust -p tenon-storage --test store -- killed --nocapture
            ;;
        # About 100 kills of each command: 34 for each of three databases, 50 for each form of a snapshot.
        commands)
            TENON_KILLS=$(part_of 34) faults "$release" tests/faults/test_kill_migrate.py
            TENON_KILLS=$(part_of 50) faults "$release" tests/faults/test_snapshots.py -k killed
            TENON_KILLS=$(part_of 100) faults "$release" tests/faults/test_chaindata.py -k killed
            ;;
        database)
            TENON_DAMAGED_COPIES=$(part_of 1000) TENON_TORN_LOGS=$(part_of 100) \
                rust -p tenon-storage --test store -- damaged_file lost_its_end --nocapture
            ;;
        disk) faults "$release" tests/faults/test_full_disk.py ;;
        files)
            TENON_DAMAGED_FILES=$(part_of 10000) rust -p tenon-fuzz-targets --test damaged_files -- --nocapture
            TENON_DAMAGED_FILES=$(part_of 250) faults "$release" tests/faults/test_damaged_files.py
            faults "$release" tests/faults/test_tampered_import.py
            ;;
        clients)
            TENON_MALFORMED=$(part_of 10000) TENON_IDLE=$(part_of 5000) faults "$release" tests/faults/test_front_ends.py
            faults "$release" tests/network/test_hostile_votes.py tests/network/test_peer.py -k "forged or hostile or flood or frames"
            ;;
        spoiled) TENON_SPOILED=$(part_of 100000) faults "$release" tests/faults/test_spoiled_requests.py ;;
        # Repeats the scan with the release build, whose use of memory differs.
        secrets) faults "$release" tests/faults/test_secrets.py ;;
        accounts) faults "$release" tests/faults/test_accounts_load.py ;;
        fairness) faults "$release" tests/faults/test_fairness.py ;;
        endless) faults "$release" tests/faults/test_endless_requests.py ;;
        memory) faults "$release" tests/faults/test_memory.py ;;
        panics) faults "$debug/tenon" tests/faults/test_panics.py ;;
        # The test plugin `intruder` is built for the debug program only.
        plugins) faults "$debug/tenon" tests/faults/test_intruder.py ;;
        folders)
            faults "$release" tests/faults/test_refused_folders.py tests/faults/test_process.py tests/faults/test_formats.py \
                tests/faults/test_stop.py
            ;;
        signatures)
            TENON_SIGNATURES=$(part_of 100000000) rust --release -p tenon-recovery --test equals_the_c_library -- \
                random_signatures --nocapture
            ;;
        *)
            echo "unknown part $part; there are: $every signatures" >&2
            exit 2
            ;;
    esac
    printf '== %s: %s s\n' "$part" $(($(date +%s) - begun))
done

whole=""
[ "$parts" != "$every" ] || [ "$share" != 100 ] || whole="--all"
printf '\n== figures (also in %s)\n' "$report"
outcome=0
# shellcheck disable=SC2086 # no word, no argument
"$cache/python/bin/python" tests/faults/figures.py "$TENON_FIGURES" $whole --json "$report" || outcome=1
if [ -n "$failed" ]; then
    printf 'failed:%s; the reasons are above\n' "$failed"
    outcome=1
fi
exit "$outcome"
