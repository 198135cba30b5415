#!/bin/sh
# profiles.sh DEBUG_BINARY RELEASE_BINARY: both builds, with one thread and with two, write the same bytes.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT

# run BINARY THREADS NAME
run() {
    "$1" sim run "$here/profiles.toml" --seeds 1..2 --threads "$2" --xml --output "$top/$3" >"$top/log" 2>&1 || {
        cat "$top/log" >&2
        echo "profiles: $1 failed" >&2
        exit 1
    }
}

run "$1" 1 debug-1
run "$2" 1 release-1
run "$2" 2 release-2
for other in release-1 release-2; do
    if ! diff -rq "$top/debug-1" "$top/$other" >&2; then
        # The report is one long line: the figures it is made of show more.
        diff -r --exclude=report.html "$top/debug-1" "$top/$other" | cut -c 1-200 | head -n 20 >&2
        echo "profiles: $other differs from debug-1" >&2
        exit 1
    fi
done
# Large enough to be cut: parts of one run on two threads.
"$2" sim run "$here/profiles.toml" --scheme presto --seeds 1 --set topology.k=8 --set duration=1ms --threads 1 --output "$top/whole" >"$top/log" 2>&1
"$2" sim run "$here/profiles.toml" --scheme presto --seeds 1 --set topology.k=8 --set duration=1ms --threads 2 --output "$top/cut" >"$top/log" 2>&1
if ! diff -rq "$top/whole" "$top/cut" >&2; then
    echo "profiles: a run on two threads differs from the same on one" >&2
    exit 1
fi
echo "profiles: debug and release, one thread and two, write the same $(find "$top/debug-1" -type f | wc -l) files"
