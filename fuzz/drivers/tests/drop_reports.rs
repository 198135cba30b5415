//! Millions of damaged reports of drops. `SELVEDGE_FRAMES` says how many; `make fuzz` reads ten million.

use fuzz_drivers::{drop_reports, Mutator};
use std::fs;
use std::path::Path;

#[test]
fn damaged_reports_are_survived() {
    let wanted: usize = std::env::var("SELVEDGE_FRAMES").ok().and_then(|n| n.parse().ok()).unwrap_or(300_000);
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../seeds/drop_reports");
    let mut files: Vec<_> = fs::read_dir(seeds).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let seeds: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    for seed in &seeds {
        assert!(drop_reports(seed).1 > 0, "each seed has a packet");
    }
    let mut mutator = Mutator::new(1, seeds);
    let (mut refused, mut packets) = (0, 0);
    for _ in 0..wanted {
        let (reports, found) = drop_reports(&mutator.frame().0);
        refused += usize::from(reports == 0);
        packets += found;
    }
    // Had all been refused, or none, this would have tested little.
    assert!(refused > wanted / 20 && packets > wanted / 20, "{refused} refused, {packets} packets");
    println!("{refused} of {wanted} datagrams refused, {packets} packets found");
}
