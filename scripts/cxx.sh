#!/bin/sh
# Runs the C++ compiler, with ccache if it is installed, and compiles RocksDB in groups of sources. RocksDB was half of a cold build,
# and its sources spend most of their compile time on headers that they share: in groups they take a third of the time. RocksDB's own
# Makefile tests such a build (`unity_test`).
#
# The build script of librocksdb-sys calls the compiler for each source in rocksdb_lib_sources.txt. The call for the first source of
# a group also includes the others (`-include`), and the calls for those make empty objects. If the environment sets CXX,
# scripts/cargo.sh does not use this script.
set -eu
groups=12

if command -v ccache >/dev/null 2>&1; then
    compiler="ccache g++"
else
    compiler="g++"
fi

source="" object="" option=""
for argument in "$@"; do
    case "$option" in
        -c) source=$argument ;;
        -o) object=$argument ;;
    esac
    option=$argument
done
case "$source" in
    rocksdb/*.cc) [ -f rocksdb_lib_sources.txt ] || exec $compiler "$@" ;;
    *) exec $compiler "$@" ;;
esac

# The place of the source in its group, 0 for the first, followed by the other sources of the group.
group=$(tr -d '\r' <rocksdb_lib_sources.txt | awk -v groups="$groups" -v source="${source#rocksdb/}" '
    $1 ~ /\.cc$/ && $1 != "util/build_version.cc" { if ($1 == source) at = count + 0; list[count++] = $1 }
    END {
        if (at == "") { print 0; exit }
        print int(at / groups)
        for (i = at % groups; i < count; i += groups) if (i != at) print "rocksdb/" list[i]
    }')
others=$(echo "$group" | tail -n +2)
if [ "$(echo "$group" | head -n 1)" != 0 ]; then
    exec g++ -x c++ -c /dev/null -o "$object"
fi
for other in $others; do
    set -- "$@" -include "$other"
done
exec $compiler "$@"
