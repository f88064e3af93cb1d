#!/bin/sh
# Writes the list of the built-in plugins of a build, by content hash, beside their libraries: those that the program in the same
# folder, or in the one above, runs as its own. To be called after every build.
#   list-plugins.sh FOLDER
set -eu
cd "$1"
list=built-in-plugins.sha256
# Beside it and renamed: a node that starts meanwhile reads a whole list. Without libraries the list is empty.
unfinished=".$list.$$"
trap 'rm -f "$unfinished"' EXIT
for library in libtenon_plugin_*.so; do
    [ ! -e "$library" ] || sha256sum "$library"
done >"$unfinished"
chmod 644 "$unfinished"
mv "$unfinished" "$list"
