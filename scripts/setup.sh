#!/bin/sh
# Installs missing packages: `setup.sh build` those for building, `setup.sh test` also those for the tests.
# If the user may not install packages, prints the command to run.
set -eu

goal="${1:-build}"
root=$(cd "$(dirname "$0")/.." && pwd)
cache="${XDG_CACHE_HOME:-$HOME/.cache}/tenon"

say() { printf 'setup: %s\n' "$*" >&2; }
has() { command -v "$1" >/dev/null 2>&1; }

has_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] && return 0
    for file in /usr/lib/llvm-*/lib/libclang*.so* /usr/lib/*/libclang*.so* /usr/lib64/libclang*.so* /usr/lib/libclang*.so* \
        /opt/homebrew/opt/llvm/lib/libclang.dylib /usr/local/opt/llvm/lib/libclang.dylib; do
        [ -e "$file" ] && return 0
    done
    return 1
}

# bindgen also needs clang's own headers (stdbool.h).
has_clang_headers() {
    for file in /usr/lib/llvm-*/lib/clang/*/include/stdbool.h /usr/lib/clang/*/include/stdbool.h \
        /usr/lib64/clang/*/include/stdbool.h /opt/homebrew/opt/llvm/lib/clang/*/include/stdbool.h; do
        [ -e "$file" ] && return 0
    done
    return 1
}

manager() {
    for name in apt-get dnf pacman apk zypper brew; do
        if has "$name"; then
            echo "$name"
            return
        fi
    done
    echo none
}

# Names of a thing's packages for a package manager: packages THING MANAGER
packages() {
    case "$1:$2" in
        libclang:apt-get) if [ -n "$(apt-cache policy libclang1-14 2>/dev/null | grep 'Candidate: [0-9]')" ]; then
                echo "libclang1-14 libclang-common-14-dev"; else echo "libclang-dev"; fi ;;
        libclang:dnf) echo "clang-libs clang-resource-filesystem clang" ;;
        libclang:pacman | libclang:zypper) echo "clang" ;;
        libclang:apk) echo "clang-libclang clang-headers linux-headers" ;;
        libclang:brew) echo "llvm" ;;
        compiler:apt-get) echo "g++ make" ;;
        compiler:dnf | compiler:zypper) echo "gcc-c++ make" ;;
        compiler:pacman) echo "base-devel" ;;
        compiler:apk) echo "g++ make musl-dev" ;;
        compiler:brew) echo "gcc make" ;;
        python:apt-get) echo "python3 python3-venv" ;;
        python:*) echo "python3" ;;
        nginx:apt-get) echo "nginx-light" ;;
        node:brew) echo "node" ;;
        node:*) echo "nodejs npm" ;;
        *) echo "$1" ;;
    esac
}

install() {
    with=$(manager)
    if [ "$with" = none ]; then
        say "no known package manager found; please install these yourself: $*"
        exit 1
    fi
    names=""
    [ "$with" = apt-get ] && { [ "$(id -u)" = 0 ] && apt-get update >/dev/null 2>&1 || true; }
    for thing in "$@"; do names="$names $(packages "$thing" "$with")"; done
    case "$with" in
        apt-get) command="apt-get install -y$names" ;;
        dnf) command="dnf install -y$names" ;;
        zypper) command="zypper install -y$names" ;;
        pacman) command="pacman -S --noconfirm$names" ;;
        apk) command="apk add$names" ;;
        brew) command="brew install$names" ;;
    esac
    if [ "$(id -u)" = 0 ] || [ "$with" = brew ]; then
        say "$command"
        DEBIAN_FRONTEND=noninteractive $command >/dev/null
    elif has sudo && sudo -n true 2>/dev/null; then
        say "sudo $command"
        sudo -n env DEBIAN_FRONTEND=noninteractive $command >/dev/null
    else
        say "packages are missing, and installing them needs root. Please run:"
        printf '\n    sudo %s\n\n' "$command" >&2
        say "and then the same make command again."
        exit 1
    fi
}

if ! has cargo; then
    say "Rust is missing. Install it with rustup (https://rustup.rs), then run the same make command again."
    exit 1
fi

missing=""
{ has g++ || has clang++; } || missing="$missing compiler"
# Generates the assembly of the hash function.
has perl || missing="$missing perl"
{ has_libclang && has_clang_headers; } || missing="$missing libclang"
has ccache || [ -n "${TENON_NO_CCACHE:-}" ] || missing="$missing ccache"
if [ "$goal" = test ]; then
    { has python3 && python3 -c 'import venv, ensurepip' 2>/dev/null; } || missing="$missing python"
    { has node && has npm; } || missing="$missing node"
    # For the tests of docs/public-node.md. Debian installs it outside an ordinary user's PATH.
    { has nginx || [ -x /usr/sbin/nginx ]; } || missing="$missing nginx"
    has openssl || missing="$missing openssl"
    # For the tests of the signing service's page.
    has chromium || missing="$missing chromium"
fi
if [ -n "$missing" ]; then
    # shellcheck disable=SC2086 # split into words
    install $missing
fi

[ "$goal" = test ] || exit 0

# Clients for the tests, installed outside the checkout, and again if their lists change.
python="$cache/python"
if ! cmp -s "$root/tests/requirements.txt" "$python/requirements.txt"; then
    say "installing the Python clients into $python"
    rm -rf "$python"
    python3 -m venv "$python"
    "$python/bin/pip" install --quiet --disable-pip-version-check -r "$root/tests/requirements.txt"
    cp "$root/tests/requirements.txt" "$python/requirements.txt"
fi
node="$cache/node"
if ! cmp -s "$root/tests/package-lock.json" "$node/installed-lock.json"; then
    say "installing the JavaScript clients into $node"
    rm -rf "$node"
    mkdir -p "$node"
    cp "$root/tests/package.json" "$root/tests/package-lock.json" "$node/"
    # Not `npm ci`, which reports an error because the lock file lists programs for this platform only.
    (cd "$node" && npm install --ignore-scripts --no-audit --no-fund --loglevel=error)
    cp "$root/tests/package-lock.json" "$node/installed-lock.json"
fi
