# shellcheck shell=sh
# Sourced by the other scripts: finds a Rust toolchain that is new enough, and C headers.

# The stated minimum, kept in one place: the workspace manifest.
min_rust() {
    sed -n 's/^rust-version = "\([0-9.]*\)"$/\1/p' "$1/Cargo.toml"
}

# at_least HAVE WANT: compares major and minor only; a HAVE that is no version is too old.
at_least() {
    case $1 in
        [0-9]*.[0-9]*) ;;
        *) return 1 ;;
    esac
    have_major=${1%%.*} have_minor=${1#*.} want_major=${2%%.*} want_minor=${2#*.}
    have_minor=${have_minor%%[!0-9]*} want_minor=${want_minor%%[!0-9]*}
    [ "$have_major" -gt "$want_major" ] || { [ "$have_major" -eq "$want_major" ] && [ "$have_minor" -ge "$want_minor" ]; }
}

# Version of the compiler that the cargo at $1 would call, empty if there is none. It is rustc's version that counts:
# Debian's cargo package used to carry numbers of its own.
rust_version_at() {
    "$1" --version >/dev/null 2>&1 || return 0
    PATH="${1%/*}:$PATH" "${RUSTC:-rustc}" --version 2>/dev/null | sed -n 's/^rustc \([0-9][0-9.]*\).*/\1/p'
}

# find_toolchain MIN: sets `cargo` (a path) and puts its directory first in PATH, or returns 1 with the newest version
# that was seen in `seen_rust`. Order: what the user has in PATH, rustup's directory, the versioned packages of Ubuntu
# (which keep out of PATH), and last rustup's stable toolchain where its default is missing or too old.
find_toolchain() {
    seen_rust=
    for cargo in "$(command -v cargo 2>/dev/null)" "${CARGO_HOME:-${HOME-}/.cargo}/bin/cargo" \
        ${RUST_DIRS-/usr/lib/rust-*/bin}/cargo; do
        [ -x "$cargo" ] || continue
        version=$(rust_version_at "$cargo")
        if at_least "$version" "$1"; then
            PATH="${cargo%/*}:$PATH"
            export PATH
            return 0
        fi
        seen_rust=${seen_rust:-$version}
    done
    for rustup in "$(command -v rustup 2>/dev/null)" "${CARGO_HOME:-${HOME-}/.cargo}/bin/rustup"; do
        cargo=${rustup%/*}/cargo
        [ -x "$rustup" ] || continue
        [ -x "$cargo" ] || continue
        version=$(export RUSTUP_TOOLCHAIN=stable && rust_version_at "$cargo")
        if at_least "$version" "$1"; then
            PATH="${cargo%/*}:$PATH" RUSTUP_TOOLCHAIN=stable
            export PATH RUSTUP_TOOLCHAIN
            return 0
        fi
    done
    return 1
}

# have_header PATH: is this C header installed?
have_header() {
    for directory in ${HEADER_DIRS-/usr/include /usr/local/include}; do
        [ -e "$directory/$1" ] && return 0
    done
    return 1
}
