#!/bin/sh
# Fuzzes the parsers of external bytes. All targets, or the named ones, share FUZZ_SECONDS (default: 20 for each target).
# Needs no nightly compiler: coverage uses flags of the stable one.
#   fuzz.sh [TARGET...]       run
#   fuzz.sh keep [TARGET...]  store a minimal set of the found inputs with the same coverage in fuzz/corpus
#   fuzz.sh lock              create the fuzzer's lock file again from the node's
set -eu
cd "$(dirname "$0")/.."
cache="${XDG_CACHE_HOME:-$HOME/.cache}/tenon"
work="${TENON_FUZZ_FOLDER:-$cache/fuzz}"
export CARGO_TARGET_DIR="$cache/target-fuzz" RUST_BACKTRACE=0
# Maximum length of a kept input, so that the checkout stays small.
max_length=1024

if [ "${1:-}" = lock ]; then
    cp Cargo.lock fuzz/Cargo.lock
    scripts/cargo.sh metadata --manifest-path fuzz/Cargo.toml --format-version 1 >/dev/null
    exit 0
fi
keep=no
if [ "${1:-}" = keep ]; then
    keep=yes
    shift
fi
known=$(ls fuzz/src/bin | sed 's/\.rs$//')
targets="${*:-$known}"
programs_built=""
for target in $targets; do
    if [ ! -f "fuzz/src/bin/$target.rs" ]; then
        printf 'there is no target %s; there are:\n%s\n' "$target" "$(echo $known | fold -s -w 100)" >&2
        exit 2
    fi
    programs_built="$programs_built --bin $target"
done

# With --target, cargo applies the flags to the fuzzed code but not to build scripts and macros.
platform=$(rustc -vV | sed -n 's/^host: //p')
# shellcheck disable=SC2086 # split into words
RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares" \
    scripts/cargo.sh build --locked --release --manifest-path fuzz/Cargo.toml --target "$platform" $programs_built
programs="$CARGO_TARGET_DIR/$platform/release"

if [ "$keep" = yes ]; then
    for target in $targets; do
        rm -rf "$work/$target/least" && mkdir -p "$work/$target/least" fuzz/corpus
        "$programs/$target" -merge=1 -max_len=$max_length -rss_limit_mb=1024 "$work/$target/least" "$work/$target/corpus" 2>/dev/null
        for input in "$work/$target/least"/*; do
            od -An -v -tx1 "$input" | tr -d ' \n'
            echo
        done | LC_ALL=C sort | gzip -n9 >"fuzz/corpus/$target.hex.gz"
        printf '%s: %s inputs kept\n' "$target" "$(gzip -dc "fuzz/corpus/$target.hex.gz" | wc -l)"
    done
    exit 0
fi

count=$(echo "$targets" | wc -w)
each=$((${FUZZ_SECONDS:-$((20 * count))} / count))
[ "$each" -gt 0 ] || each=1
printf 'fuzzing %s targets for %s s each (plus a few to read inputs of earlier searches); corpora and findings in %s\n' \
    "$count" "$each" "$work"
table="$work/table"
mkdir -p "$work"
: >"$table"
status=0
for target in $targets; do
    mkdir -p "$work/$target/corpus" "$work/$target/findings"
    TENON_FUZZ_SEEDS="$work/$target" "$programs/$target" 2>"$work/$target/seeds.log" || { cat "$work/$target/seeds.log" >&2; exit 1; }
    log="$work/$target/log"
    result=quiet
    words=""
    [ ! -s "$work/$target/words.dict" ] || words="-dict=$work/$target/words.dict"
    # shellcheck disable=SC2086 # no words, no argument
    "$programs/$target" -max_total_time="$each" -timeout=10 -rss_limit_mb=1024 -max_len=8192 -print_final_stats=1 \
        $words -artifact_prefix="$work/$target/findings/" "$work/$target/corpus" 2>"$log" ||
        { result=FINDING; status=1; }
    awk -v target="$target" -v result="$result" '
        /inline 8-bit counters\)/ { edges = $5; gsub(/[^0-9]/, "", edges) }
        / cov: / { for (at = 1; at < NF; at++) { if ($at == "cov:") covered = $(at + 1); if ($at == "corp:") corpus = $(at + 1) } }
        /stat::number_of_executed_units/ { runs = $2 }
        /stat::average_exec_per_sec/ { rate = $2 }
        /stat::peak_rss_mb/ { memory = $2 }
        END { sub(/\/.*/, "", corpus); printf "%s %d %d %d %d %s %d %s\n", target, runs, rate, covered, edges, corpus, memory, result }
    ' "$log" >>"$table"
    tail -1 "$table" | awk '{ printf "  %-20s %12d runs %8d/s  %6d edges  %s\n", $1, $2, $3, $4, $8 }'
done

awk '
    BEGIN { printf "\n%-20s %13s %9s %8s %8s %7s  %s\n", "target", "executions", "per s", "edges", "inputs", "MB", "outcome" }
    { printf "%-20s %13d %9d %8d %8s %7d  %s\n", $1, $2, $3, $4, $6, $7, $8; total += $2; findings += $8 == "FINDING" }
    END {
        printf "\nexecutions: inputs tried; edges: places in the program that they reached; inputs: kept for the next search;\n"
        printf "MB: peak memory of the process; outcome: quiet if no input broke a rule of its target (docs/fuzzing.md)\n"
        printf "\n%d targets, %d executions, %s\n", NR, total,
            findings ? findings " targets with a FINDING" : "no findings: no input panicked or broke a rule"
    }
' "$table"
if [ "$status" -ne 0 ]; then
    printf '\nInputs and reasons:\n'
    grep -l FINDING "$table" >/dev/null && for target in $targets; do
        find "$work/$target/findings" -type f | while read -r input; do
            printf '  %s\n    %s\n' "$input" "$(grep -a -m1 -A1 -E "panicked|ERROR: libFuzzer" "$work/$target/log" | tr '\n' ' ' || true)"
        done
    done
    printf 'Replay: %s/TARGET INPUT. Once fixed, keep it: cp INPUT fuzz/kept/TARGET/WHAT-IT-BROKE\n' "$programs"
fi
exit "$status"
