#!/bin/sh
# Tests scripts/need and scripts/cargo against made-up machines: a PATH that holds only stubs. Installs nothing.
set -eu

scripts=$(cd "$(dirname "$0")/.." && pwd)
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
sh=$(command -v sh)
failures=0

# A machine with the plain tools that the scripts themselves use, as root, without apt.
machine() {
    rm -rf "${top:?}/bin" "${top:?}/home" "${top:?}/lib" "${top:?}/include" "${top:?}/sbin" "${top:?}/apt.log"
    mkdir -p "$top/bin" "$top/sbin" "$top/home"
    for tool in sh sed id mktemp tail rm sort env dirname cat grep mkdir chmod; do
        ln -s "$(command -v $tool)" "$top/bin/$tool"
    done
    stub id 'echo 0'
}

# stub NAME BODY: a command of that name in the machine's PATH.
stub() {
    rm -f "$top/bin/$1"
    printf '#!%s\n%s\n' "$sh" "$2" >"$top/bin/$1"
    chmod +x "$top/bin/$1"
}

# rust VERSION [DIR]: a toolchain of that version.
rust() {
    mkdir -p "${2:-$top/bin}"
    for tool in cargo rustc; do
        printf '#!%s\necho "%s %s (stub)"\n' "$sh" $tool "$1" >"${2:-$top/bin}/$tool"
        chmod +x "${2:-$top/bin}/$tool"
    done
}

# apt BODY: an apt-get that logs its arguments and runs BODY on install, and an apt-cache that knows `candidates`,
# lines of "package version".
apt() {
    stub apt-get "echo \"\$*\" >>$top/apt.log
case \" \$* \" in *' install '*) $1 ;; esac"
    stub apt-cache "case \$1 in
policy) sed -n \"s/^\$2 /  Candidate: /p\" $top/candidates ;;
pkgnames) sed -n 's/ .*//p' $top/candidates ;;
esac"
    : >"$top/apt.log"
}

# run SCRIPT ARG...: sets `out` and `status`; extra environment in `with`.
with=
run() {
    script=$1
    shift
    status=0
    # shellcheck disable=SC2086 # `with` holds assignments
    out=$(env -i PATH="$top/bin" HOME="$top/home" RUST_DIRS="$top/lib/rust-*/bin" HEADER_DIRS="$top/include" \
        POLICY_RC="$top/policy-rc.d" SBIN_DIRS="$top/sbin" $with \
        "$sh" "$scripts/$script" "$@" 2>&1) || status=$?
}

fail() {
    failures=$((failures + 1))
    printf 'FAIL %s: %s\n  status %s, output:\n%s\n' "$name" "$1" "$status" "$out" >&2
}

expect_status() { [ "$status" = "$1" ] || fail "status should be $1"; }
refute_line() { if printf '%s\n' "$out" | grep -qF -- "$1"; then fail "should not say: $1"; fi; }
expect_line() { printf '%s\n' "$out" | grep -qF -- "$1" || fail "should say: $1"; }
expect_lines() { [ "$(printf '%s' "$out" | grep -c '')" = "$1" ] || fail "should print $1 lines"; }
expect_installed() { grep -qE -- "install -y .*--no-remove $1\$" "$top/apt.log" || fail "should install $1"; }

name="all there: quiet"
machine
rust 1.90.0
stub cc :
stub make :
run need build
expect_status 0
expect_lines 0

name="the exact minimum is enough"
rust "$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$scripts/../Cargo.toml").0"
run need build
expect_status 0
expect_lines 0

name="a later major version is enough"
rust 2.0.0
run need build
expect_status 0

name="no C compiler, no package manager"
machine
rust 1.90.0
stub make :
run need build
expect_status 1
expect_lines 1
expect_line "missing a C compiler (cc): apt-get install gcc libc6-dev"

name="old Rust, no package manager"
machine
rust 1.63.0
stub cc :
stub make :
run need build
expect_status 1
expect_lines 1
expect_line "(found 1.63.0): https://rustup.rs"
run cargo build
expect_status 1
expect_line "https://rustup.rs"

name="everything missing is still one line"
machine
run need lint
expect_status 1
expect_lines 1
expect_line "a C compiler (cc), make, python3, Python's yaml: apt-get install"
expect_line "https://rustup.rs"

name="Debian 12: cargo too old, cargo-web new enough"
machine
stub cc :
stub make :
printf '%s\n' "cargo 0.66.0+ds1-1" "cargo-web 1.96.0+dfsg1-1~deb12u2" >"$top/candidates"
apt "printf '#!%s\necho \"rustc 1.96.0\"\n' $sh >$top/bin/cargo; cat $top/bin/cargo >$top/bin/rustc
chmod +x $top/bin/cargo $top/bin/rustc"
run need build
expect_status 0
expect_lines 1
expect_line "installing cargo-web rustc-web ca-certificates (apt)"
expect_installed "cargo-web rustc-web ca-certificates"

name="installs forbidden"
machine
stub cc :
stub make :
apt false
with=SELVEDGE_NO_INSTALL=1
run need build
with=
expect_status 1
expect_lines 1
expect_line "apt-get install cargo-web rustc-web, or https://rustup.rs"
[ ! -s "$top/apt.log" ] || fail "should not call apt-get"

name="not root, sudo wants a password"
stub id 'echo 1000'
stub sudo 'exit 1'
run need build
expect_status 1
expect_lines 1
[ ! -s "$top/apt.log" ] || fail "should not call apt-get"

name="not root, sudo without a password"
stub sudo "[ \"\$1\" = -n ] && shift; [ \"\$1\" = true ] || \"\$@\""
stub true :
rm "$top/bin/cc"
apt "case \"\$*\" in *gcc*) printf '#!$sh\n' >$top/bin/cc; chmod +x $top/bin/cc ;;
*) for tool in cargo rustc; do printf '#!%s\necho \"rustc 1.96.0\"\n' $sh >$top/bin/\$tool
chmod +x $top/bin/\$tool; done ;; esac"
run need build
expect_status 0
expect_installed "gcc libc6-dev"

name="Debian 13: its own cargo"
machine
stub cc :
stub make :
printf '%s\n' "cargo 1:1.85.0+dfsg3-1" "rustup 1.27.1-4" >"$top/candidates"
apt "for tool in cargo rustc; do printf '#!%s\necho \"rustc 1.85.0\"\n' $sh >$top/bin/\$tool
chmod +x $top/bin/\$tool; done"
run need build
expect_status 0
expect_installed "cargo rustc ca-certificates"

name="Ubuntu: the newest versioned package, outside PATH"
machine
stub cc :
stub make :
printf '%s\n' "cargo 1.75.0+dfsg0ubuntu1" "cargo-1.75 1.75.0" "cargo-1.85 1.85.1" "cargo-1.89 1.89.0" \
    "cargo-1.85-doc 1.85.1" "rustup 1.26.0" >"$top/candidates"
apt "mkdir -p $top/lib/rust-1.89/bin; for tool in cargo rustc; do
printf '#!%s\necho \"rustc 1.89.0 \$*\"\n' $sh >$top/lib/rust-1.89/bin/\$tool
chmod +x $top/lib/rust-1.89/bin/\$tool; done"
run need build
expect_status 0
expect_installed "cargo-1.89 rustc-1.89 ca-certificates"
run need build
expect_lines 0
run cargo build --release
expect_status 0
expect_line "rustc 1.89.0 build --release"

name="only rustup is packaged"
machine
stub cc :
stub make :
printf '%s\n' "cargo 0.66.0+ds1-1" "rustup 1.27.1-4" >"$top/candidates"
apt "printf '%s\n' '#!$sh' 'if [ \"\$*\" = \"default stable\" ]; then : >$top/home/stable; fi' \
'[ -e $top/home/stable ]' >$top/bin/rustup
for tool in cargo rustc; do printf '#!%s\n[ -e %s ] && echo \"rustc 1.95.0\"\n' $sh $top/home/stable \
>$top/bin/\$tool; done; chmod +x $top/bin/rustup $top/bin/cargo $top/bin/rustc"
run need build
expect_status 0
expect_installed "rustup ca-certificates"
expect_line "installing the stable Rust toolchain (rustup)"

name="rustup's default is old: stable is added and used, the default stays"
machine
stub cc :
stub make :
stub rustup "echo \"\$*\" >>$top/rustup.log; case \$1 in toolchain) : >$top/home/stable ;; esac"
for tool in cargo rustc; do
    stub $tool "if [ \"\${RUSTUP_TOOLCHAIN:-}\" = stable ]; then [ -e $top/home/stable ] && echo 'rustc 1.95.0'
else echo 'rustc 1.70.0'; fi"
done
run need build
expect_status 0
run cargo --version
expect_line "rustc 1.95.0"
if grep -q "default stable" "$top/rustup.log"; then fail "should leave the default alone"; fi

name="apt fails: its last words and one line"
machine
rust 1.90.0
stub make :
: >"$top/candidates"
apt "echo 'E: no space left'; exit 100"
run need build
expect_status 1
expect_line "E: no space left"
expect_line "missing a C compiler (cc)"

name="the demonstration goes on without real traffic, and says so to root alone"
machine
rust 1.90.0
stub cc :
stub make :
run need demo
expect_status 0
expect_lines 6
expect_line "clang is missing, so the demo's real traffic will be skipped (package clang)"
expect_line "ip is missing, so the demo's real traffic will be skipped (package iproute2)"
stub id 'echo 1000'
run need demo
expect_status 0
expect_lines 0

name="tests go on without the optional tools, and say so"
machine
rust 1.90.0
stub cc :
stub make :
run need test
expect_status 0
expect_line "clang is missing, so the BPF build of the datapath will be skipped"
expect_line "Chromium is missing, so the report's browser test will be skipped"
expect_line "libelf.h is missing, so the kernel edge will be skipped (package libelf-dev)"
run features
expect_status 0
expect_lines 1
expect_line "missing clang, pkg-config, bpf/bpf_helpers.h, libelf.h, zlib.h"

name="packages ask for what they are made of, and for no tool of tests"
run need package
expect_status 1
expect_line "dpkg-shlibdeps"
stub dpkg-shlibdeps :
stub strip :
stub python3 :
run need package
expect_status 1
expect_line "what the kernel edge is built with"

name="a user's PATH does not lead to root's tools, which are there"
run need test
expect_line "ip is missing"
stub ip :
stub nft :
mv "$top/bin/ip" "$top/bin/nft" "$top/sbin/"
run need test
refute_line "ip is missing"
refute_line "nft is missing"
expect_line "ethtool is missing"

name="a Go that cannot build cnitool is not installed, a later one is"
with=SELVEDGE_STRICT=1
printf '%s\n' "golang-go 2:1.19~1" >"$top/candidates"
apt :
run need test
expect_status 0
[ ! -s "$top/apt.log" ] || ! grep -q golang "$top/apt.log" || fail "should not install it"
printf '%s\n' "golang-go 2:1.24~2" >"$top/candidates"
run need test
expect_status 1
expect_installed golang-go
expect_line "need: missing golang-go: apt-get install golang-go"
stub go :
run need test
expect_status 0
with=

name="what tests use is installed in one go, and no server is started"
printf '%s\n' "clang 1:14.0-55.7" "libelf-dev 0.188-2.1" "nginx-light 1.22.1-9" \
    "etcd-server 3.4.23-4" >"$top/candidates"
apt "[ -x $top/policy-rc.d ] || echo 'a server would start' >&2
printf '#!%s\n' $sh >$top/bin/clang; cp $top/bin/clang $top/bin/nginx; cp $top/bin/clang $top/bin/etcd
mkdir -p $top/include; : >$top/include/libelf.h; chmod +x $top/bin/clang $top/bin/nginx $top/bin/etcd"
ln -s "$(command -v cp)" "$top/bin/cp"
run need test
expect_status 0
expect_line "installing clang libelf-dev nginx-light etcd-server (apt)"
expect_installed "clang libelf-dev nginx-light etcd-server"
expect_line "zlib.h is missing, so the kernel edge will be skipped (package zlib1g-dev)"
if printf '%s\n' "$out" | grep -q -e 'server would start' -e 'clang is missing' -e 'nginx is missing' -e 'etcd is missing'; then
    fail "should find what it installed, and start nothing"
fi
[ ! -e "$top/policy-rc.d" ] || fail "should leave no policy behind"

name="one package that cannot be had does not keep the others away"
machine
rust 1.90.0
stub cc :
stub make :
printf '%s\n' "clang 1:14.0-55.7" "chromium 150.0-1" >"$top/candidates"
apt "case \" \$* \" in *' chromium '*) echo 'E: no chromium today'; exit 100 ;; esac
printf '#!%s\n' $sh >$top/bin/clang; chmod +x $top/bin/clang"
run need test
expect_status 0
expect_line "Chromium is missing"
expect_installed "clang"
if printf '%s\n' "$out" | grep -q 'clang is missing'; then fail "should have clang by now"; fi

name="what could be installed is not to be skipped where that is asked for"
with=SELVEDGE_STRICT=1
run need test
expect_status 1
expect_line "need: missing chromium: apt-get install chromium"
refute_line "Chromium is missing, so"
expect_line "libelf.h is missing, so the kernel edge will be skipped (package libelf-dev)"
with="SELVEDGE_STRICT=1 SELVEDGE_NO_INSTALL=1"
run need test
expect_status 0
printf '%s\n' "clang 1:14.0-55.7" >"$top/candidates"
with=SELVEDGE_STRICT=1
run need test
expect_status 0
expect_line "Chromium is missing, so the report's browser test will be skipped"
with=

name="all of the kernel edge is there"
machine
rust 1.90.0
for tool in cc make clang pkg-config; do stub $tool :; done
mkdir -p "$top/include/bpf"
for file in bpf/bpf_helpers.h libelf.h zlib.h; do : >"$top/include/$file"; done
run features
expect_status 0
expect_lines 1
expect_line "--features selvedge/kernel"

name="several targets at once"
stub python3 :
run need lint dinner
expect_status 2

name="lint tools come with rustup"
machine
stub cc :
stub make :
stub python3 :
for tool in cargo rustc; do
    stub $tool "case \$1 in fmt|clippy) [ -e $top/home/components ] ;; *) echo 'rustc 1.95.0' ;; esac"
done
run need lint
expect_status 1
expect_line "rustfmt and clippy: rustup component add rustfmt clippy"
stub rustup "case \"\$*\" in 'component add rustfmt clippy') : >$top/home/components ;; esac"
run need lint
expect_status 0
expect_line "installing rustfmt and clippy (rustup)"

name="lint reads YAML"
machine
rust 1.90.0
stub cc :
stub make :
stub python3 "[ -e $top/home/yaml ]"
run need lint
expect_status 1
expect_lines 1
expect_line "missing Python's yaml: apt-get install python3-yaml"
apt ": >$top/home/yaml"
: >"$top/candidates"
run need lint
expect_status 0
expect_installed "python3-yaml"

name="unknown target"
run need dinner
expect_status 2
expect_line "usage: need build|demo|test|lint"

[ "$failures" = 0 ] || { echo "need: $failures checks failed" >&2; exit 1; }
echo "need: all checks hold"
