# Sourced by the other scripts here, which set `here`.
# shellcheck shell=bash
# shellcheck disable=SC2154
root=$(cd "$here/../.." && pwd)
# shellcheck disable=SC2034 # for who sources this
work=$(mkdir -p "${CARGO_TARGET_DIR:-$root/target}/kernels" && cd "${CARGO_TARGET_DIR:-$root/target}/kernels" && pwd)

# Ends the script: what it is to do cannot be done on this machine.
unavailable() {
    echo "skipped: kernels: $*" >&2
    exit 3
}
