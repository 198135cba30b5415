//! Dissertation, Table 4.7: what a limiter must have.

use super::entries;
use selvedge::repro::records::{records, Recorded};

/// Throughput, oscillation, latency and generality, in the columns of the table in `results/prose/limiters.md`, whose cells name results.
#[test]
fn every_limiter_has_a_verdict_on_each_requirement() {
    let sections = selvedge::repro::prose::prose().unwrap();
    let of_paper = |s: &&selvedge::repro::prose::Section| s.paper == "limiters" && s.experiments.is_empty();
    let text = &sections.iter().find(of_paper).expect("there is text about the whole chapter").text;
    // The first table.
    let table = text.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let rows: Vec<Vec<&str>> = table.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect();
    assert_eq!(rows[0], ["Limiter", "R1, throughput", "R2, oscillation", "R3, latency", "R4, any guest"]);
    let limiters: Vec<&str> = rows[2..].iter().map(|row| row[0]).collect();
    assert_eq!(limiters, ["strawman", "DEM", "SPRING"]);
    let (records, entries) = (records().unwrap(), entries());
    for cell in rows[2..].iter().flat_map(|row| &row[1..]) {
        let id = format!("limiters/{}", cell.trim_matches('`'));
        let decided = records.get(&id).is_some_and(|said| *said == Recorded::Holds || said.fails());
        assert!(decided, "{id} has no verdict");
        assert!(entries.iter().any(|entry| entry.scenario.contains(&id)), "no claim names {id}");
    }
}
