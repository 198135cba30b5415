//! Every seed and every past crasher, through its target; and some bytes without a meaning.

use std::fs;
use std::path::{Path, PathBuf};

fn seeds(target: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../seeds").join(target);
    let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn every_target_passes_its_seeds() {
    for (name, target) in fuzz_drivers::TARGETS {
        let files = seeds(name);
        assert!(!files.is_empty(), "{name} has no seeds");
        for file in files {
            eprintln!("{}", file.display());
            target(&fs::read(&file).unwrap());
        }
    }
}

/// Each seed with one byte changed at a time, and cut short: what a fuzzer does first.
#[test]
fn every_target_passes_near_its_seeds() {
    for (name, target) in fuzz_drivers::TARGETS {
        for file in seeds(name) {
            let seed = fs::read(&file).unwrap();
            for at in 0..seed.len().min(200) {
                target(&seed[..at]);
                for flip in [0x01, 0x80, 0xff] {
                    let mut bytes = seed.clone();
                    bytes[at] ^= flip;
                    target(&bytes);
                }
            }
        }
    }
}

/// A fixed stream of pseudo-random bytes, cut into inputs.
#[test]
fn every_target_passes_noise() {
    let mut state = 1u64;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    for (_, target) in fuzz_drivers::TARGETS {
        for length in 0..2000 {
            let noise: Vec<u8> = (0..length % 600).map(|_| byte()).collect();
            target(&noise);
        }
    }
}
