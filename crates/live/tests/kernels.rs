//! The running kernel takes the programs, whichever clang built them. Root only; says why where it is skipped.
#![cfg(feature = "kernel")]

#[path = "../build/clang.rs"]
mod clang;
mod fabric;

use live::kernel::{try_edge, try_laws};
use std::path::Path;
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
}

#[test]
fn what_each_clang_builds_loads() {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let there = |clang: &String| {
        let version = Command::new(clang).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    let clangs: Vec<String> = CLANGS.map(|version| format!("clang-{version}")).filter(there).collect();
    if clangs.is_empty() {
        eprintln!("skipped: no clang-{} to clang-{} is installed", CLANGS.start(), CLANGS.end());
        return;
    }
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../datapath/kernel");
    for clang in &clangs {
        for (name, load) in [("edge", try_edge as fn(Option<&[u8]>) -> _), ("limits", try_laws)] {
            let object = std::env::temp_dir().join(format!("sv{}-{clang}-{name}.o", std::process::id()));
            let built = clang::compile_bpf(clang, std::env::consts::ARCH, &format!("{root}/{name}.bpf.c"), &object);
            let loaded = built.map(|()| std::fs::read(&object).unwrap());
            let _ = std::fs::remove_file(Path::new(&object));
            if let Err(why) = load(Some(&loaded.unwrap())) {
                panic!("{clang} {name}: {why}");
            }
        }
    }
    println!("{}", clangs.join(", "));
}
