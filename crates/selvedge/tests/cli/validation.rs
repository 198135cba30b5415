//! What other simulators are compared with.

use crate::{stderr, Scratch};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/validation");

/// What `bench/validation/run` measured; `ns3` need not exist.
fn run(words: &[&str], ns3: &Path) -> Value {
    let mut command = Command::new("python3");
    command.arg(Path::new(DIRECTORY).join("run")).args(["--quick", "--json", "--seeds", "1"]).args(words);
    let output = command.arg("--selvedge").arg(env!("CARGO_BIN_EXE_selvedge")).arg("--ns3").arg(ns3).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The dumbbell beside ns-3: all of our cases and ablations run, and ns-3's program where that is installed.
#[test]
fn the_dumbbell_beside_ns3_runs() {
    if Command::new("python3").arg("--version").output().is_err() {
        return println!("skipped: there is no python3");
    }
    let scratch = Scratch::new("dumbbell");
    let sides: &[&str] = if Path::new("/usr/include/ns3/core-module.h").exists() {
        let build = format!("BUILD={}", scratch.path().display());
        let make = Command::new("make").args(["-C", DIRECTORY, &build, "CXXFLAGS=-O0"]).output().unwrap();
        assert!(make.status.success(), "{}", stderr(&make));
        &["ours", "ns-3"]
    } else {
        println!("ns-3's side is skipped: libns3-dev is not installed");
        &["ours"]
    };
    let both = run(&["dctcp-2"], &scratch.path().join("dumbbell"));
    let rows = both["cases"]["dctcp-2"]["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["side"].as_str().unwrap()).collect::<Vec<_>>(), sides);
    for row in rows {
        let value = |key: &str| row["values"][key]["mean"].as_f64().unwrap();
        assert!((4.0..4.8).contains(&value("flow_gbps")), "{row}");
        assert!((50.0..120.0).contains(&value("queue_mean_kb")), "{row}");
        assert!(value("marked") > 0.0 && value("dropped") == 0.0, "{row}");
    }
    let ours = run(&["--ablations"], &scratch.path().join("none"));
    let cases = ours["cases"].as_object().unwrap().values();
    let rows: Vec<_> = cases.flat_map(|case| case["rows"].as_array().unwrap()).collect();
    assert!(rows.len() >= 10, "{}", rows.len());
    for row in rows {
        assert_eq!(row["side"], "ours");
        assert!(row["values"]["flow_gbps"]["mean"].as_f64() > Some(0.0), "{row}");
    }
}
