//! The running kernel takes the programs, whichever clang built them. Root only; says why where it is skipped.
#![cfg(feature = "libbpf")]

#[path = "../build/clang.rs"]
mod clang;
mod fabric;

use kernel::{try_edge, try_fastlane, try_laws};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The oldest has compiled the programs since they exist; newer ones than the last are not known yet.
const CLANGS: std::ops::RangeInclusive<u32> = 14..=22;

/// Not a test of its own: see `fabric::peer`.
#[test]
fn peer_process() {
    fabric::peer::run();
}

#[test]
fn every_program_loads() {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    try_edge(None).unwrap();
    try_laws(None).unwrap();
    match with_tcx() {
        true => try_fastlane(None).unwrap(),
        false => eprintln!("skipped in part: FastLane needs Linux 6.6"),
    }
}

/// FastLane needs an order among programs.
fn with_tcx() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    agent_api::release::version_of(&release).is_some_and(|version| version >= (6, 6))
}

/// Where objects are that another machine built, or are to be put for one: `<clang>-<name>.o`.
fn kept() -> Option<PathBuf> {
    std::env::var_os("SELVEDGE_BPF_OBJECTS").map(PathBuf::from)
}

/// The programs as every clang of this machine builds them.
fn build_all(to: &Path) {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../datapath/kernel");
    for clang in CLANGS.map(|version| format!("clang-{version}")) {
        let version = Command::new(&clang).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !version.is_ok_and(|status| status.success()) {
            continue;
        }
        for name in ["edge", "limits", "fastlane"] {
            let object = to.join(format!("{clang}-{name}.o"));
            clang::compile_bpf(&clang, std::env::consts::ARCH, &format!("{root}/{name}.bpf.c"), &object).unwrap();
        }
    }
}

/// Not a test of its own: `scripts/kernels/test` calls it for machines that have no clang.
#[test]
#[ignore = "builds for another machine"]
fn objects_for_another_machine() {
    build_all(&kept().expect("SELVEDGE_BPF_OBJECTS names a directory"));
}

#[test]
fn what_each_clang_builds_loads() {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let own = tempfile::tempdir().unwrap();
    let objects = kept().unwrap_or_else(|| {
        build_all(own.path());
        own.path().to_owned()
    });
    let mut tried = Vec::new();
    for clang in CLANGS.map(|version| format!("clang-{version}")) {
        let all = [("edge", try_edge as fn(Option<&[u8]>) -> _), ("limits", try_laws), ("fastlane", try_fastlane)];
        for (name, load) in all.into_iter().filter(|(name, _)| *name != "fastlane" || with_tcx()) {
            let Ok(object) = std::fs::read(objects.join(format!("{clang}-{name}.o"))) else { continue };
            if let Err(why) = load(Some(&object)) {
                panic!("{clang} {name}: {why}");
            }
            tried.push(format!("{clang} {name}"));
        }
    }
    if tried.is_empty() {
        eprintln!("skipped: no clang-{} to clang-{} is installed", CLANGS.start(), CLANGS.end());
    }
    println!("{}", tried.join(", "));
}
