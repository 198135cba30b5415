//! The running kernel takes the programs, whichever clang built them. Root only; says why where it is skipped.
#![cfg(feature = "libbpf")]

#[path = "../build/clang.rs"]
mod clang;
mod fabric;

use kernel::{try_edge, try_fastlane, try_laws, try_limits_without_laws, Taken};
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
    let mut taken = [try_edge(None), try_laws(None), try_limits_without_laws(None)].map(Result::unwrap).concat();
    match older("fastlane") {
        None => taken.extend(try_fastlane(None).unwrap()),
        Some(why) => eprintln!("skipped in part: {why}"),
    }
    assert!(taken.iter().any(|one| one.program == "selvedge_limit_guest"), "{taken:?}");
    assert_room("this build", &taken);
}

/// Half of what the verifier takes. It needs time for each, and that decides how long an agent's start takes.
const MOST: u32 = 500_000;

fn assert_room(built: &str, taken: &[Taken]) {
    for Taken { program, instructions } in taken {
        println!("{built}: {program} has the verifier follow {instructions} instructions");
        assert!(
            (1..MOST).contains(instructions),
            "{built}: {program} has the verifier follow {instructions} instructions"
        );
    }
}

/// Why this kernel cannot take an object, whoever compiled it, if so.
fn older(name: &str) -> Option<String> {
    match name {
        "fastlane" => fabric::older_than(fabric::WITH_TCX, "FastLane"),
        "dctcp" => fabric::older_than(fabric::WITH_DCTCP, "a congestion control that asks for ECN"),
        _ => None,
    }
}

/// Loads one of [`clang::OBJECTS`]; pinned nowhere, attached to nothing. What that took is told of those that agents load.
fn load(name: &str, object: &[u8]) -> Result<Vec<Taken>, String> {
    let plainly = |object: &[u8]| {
        let open = libbpf_rs::ObjectBuilder::default().open_memory(object);
        open.and_then(libbpf_rs::OpenObject::load).map(|_| Vec::new()).map_err(|e| e.to_string())
    };
    match name {
        "edge" => try_edge(Some(object)),
        "limits" => try_laws(Some(object)),
        "limits_plain" => try_limits_without_laws(Some(object)),
        "fastlane" => try_fastlane(Some(object)),
        _ => return plainly(object),
    }
    .map_err(|e| e.to_string())
}

fn names() -> impl Iterator<Item = &'static str> {
    clang::OBJECTS.into_iter().flat_map(|(names, ..)| names.iter().copied())
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
        for name in names() {
            let object = to.join(format!("{clang}-{name}.o"));
            clang::compile_bpf(&clang, std::env::consts::ARCH, &format!("{root}/{name}.bpf.c"), &object).unwrap();
        }
    }
}

/// A program that reads what is not there: no verifier takes it.
const REFUSED: &str = "__attribute__((section(\"tc\"), used)) int out_of_bounds(void *skb)\n\
                       { return *(volatile int *)(skb + 4096); }\n";

/// The program that is refused, `refused.o`, by the first clang that is here.
fn build_refused(to: &Path) -> Option<PathBuf> {
    let (source, object) = (to.join("refused.c"), to.join("refused.o"));
    std::fs::write(&source, REFUSED).unwrap();
    let clangs = CLANGS.map(|version| format!("clang-{version}")).chain(["clang".into()]);
    let built = |clang: String| clang::compile_bpf(&clang, std::env::consts::ARCH, source.to_str()?, &object).ok();
    clangs.filter_map(built).next().map(|()| object)
}

/// Not a test of its own: `scripts/kernels/test` calls it for machines that have no clang.
#[test]
#[ignore = "builds for another machine"]
fn objects_for_another_machine() {
    let to = kept().expect("SELVEDGE_BPF_OBJECTS names a directory");
    build_all(&to);
    build_refused(&to);
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
        let built = |name: &str| std::fs::read(objects.join(format!("{clang}-{name}.o"))).ok();
        let all: Vec<_> = names().map(|name| (name, built(name))).collect();
        if all.iter().all(|(_, object)| object.is_none()) {
            continue;
        }
        for (name, object) in all {
            let object = object.unwrap_or_else(|| panic!("{clang} has built no {name}"));
            match older(name) {
                None => {
                    let taken = load(name, &object).unwrap_or_else(|why| panic!("{clang} {name}: {why}"));
                    assert_room(&clang, &taken);
                }
                Some(why) => {
                    println!("{clang} {name}: {why}");
                    continue;
                }
            }
            tried.push(format!("{clang} {name}"));
        }
    }
    if tried.is_empty() {
        eprintln!("skipped: no clang-{} to clang-{} is installed", CLANGS.start(), CLANGS.end());
    }
    println!("{}", tried.join(", "));
}

#[test]
fn a_refusal_says_the_verifiers_last_words() {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let own = tempfile::tempdir().unwrap();
    let object = match kept() {
        Some(kept) => Some(kept.join("refused.o")).filter(|object| object.exists()),
        None => build_refused(own.path()),
    };
    let Some(object) = object else {
        eprintln!("skipped: no clang is installed");
        return;
    };
    let why = try_edge(Some(&std::fs::read(object).unwrap())).unwrap_err().to_string();
    assert!(why.contains("the verifier's last words on out_of_bounds:\n"), "{why}");
    assert!(why.contains("invalid bpf_context access off=4096 size=4"), "{why}");
    assert!(why.lines().count() <= 8, "its end only: {why}");
}
