#!/bin/sh
# Writes the list of a build's built-in plugins, by content hash, next to their libraries. The program in the same folder, or in
# the one above, treats the listed plugins as its own. Call it after every build.
#   list-plugins.sh FOLDER
set -eu
cd "$1"
list=built-in-plugins.sha256
# Written to another file and renamed, so that a starting node reads a complete list. Without libraries the list is empty.
unfinished=".$list.$$"
trap 'rm -f "$unfinished"' EXIT
for library in libtenon_plugin_*.so; do
    [ ! -e "$library" ] || sha256sum "$library"
done >"$unfinished"
chmod 644 "$unfinished"
mv "$unfinished" "$list"
