//! What a run writes.

use crate::{selvedge, stderr, stdout, Scratch, TINY};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .map(|p| (p.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&p).unwrap()))
        .collect()
}

#[test]
fn results_do_not_depend_on_threads_or_on_who_asks_twice() {
    let scratch = Scratch::new("determinism");
    scratch.file("tiny.toml", TINY);
    for (dir, threads) in [("one", "1"), ("two", "2"), ("again", "2")] {
        let output = selvedge(
            scratch.path(),
            &["sim", "run", "tiny.toml", "-o", dir, "--threads", threads, "--xml", "--capture", "leaf1-spine1"],
        );
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let one = contents(&scratch.path().join("one"));
    let names: Vec<&str> = one.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "effective.toml",
            "flowmonitor-ecmp-1.xml",
            "flowmonitor-ecmp-2.xml",
            "flowmonitor-optimal-1.xml",
            "flowmonitor-optimal-2.xml",
            "flowmonitor-presto-1.xml",
            "flowmonitor-presto-2.xml",
            "flows.csv",
            "leaf1-spine1-ecmp-1.pcapng",
            "leaf1-spine1-ecmp-2.pcapng",
            "leaf1-spine1-presto-1.pcapng",
            "leaf1-spine1-presto-2.pcapng",
            "metrics.csv",
            "metrics.json",
            "ports.csv",
            "report.html",
        ]
    );
    for dir in ["two", "again"] {
        for (name, bytes) in contents(&scratch.path().join(dir)) {
            assert_eq!(Some(&bytes), one.get(&name), "{dir}/{name} differs");
        }
    }
}

#[test]
fn the_effective_configuration_gives_the_same_results() {
    let scratch = Scratch::new("effective");
    scratch.file("tiny.toml", TINY);
    let first = selvedge(
        scratch.path(),
        &["sim", "run", "tiny.toml", "-o", "a", "--scheme", "presto", "--seeds", "7", "--set", "switch.buffer=1MB"],
    );
    assert!(first.status.success(), "{}", stderr(&first));
    let effective = std::fs::read_to_string(scratch.path().join("a/effective.toml")).unwrap();
    assert!(effective.contains("buffer = \"1MB\"") && effective.contains("seeds = \"7\""), "{effective}");
    let second = selvedge(scratch.path(), &["sim", "run", "a/effective.toml", "-o", "b"]);
    assert!(second.status.success(), "{}", stderr(&second));
    for file in ["effective.toml", "flows.csv", "ports.csv", "metrics.csv", "metrics.json"] {
        let read = |dir: &str| std::fs::read(scratch.path().join(dir).join(file)).unwrap();
        assert_eq!(read("a"), read("b"), "{file}");
    }
}

#[test]
fn json_and_csv_are_well_formed_and_agree() {
    let scratch = Scratch::new("formats");
    scratch.file("tiny.toml", TINY);
    let output = selvedge(scratch.path(), &["sim", "run", "tiny.toml", "--json", "-o", "out"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(output.stderr.is_empty(), "no progress in a pipe: {}", stderr(&output));
    let printed: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let out = scratch.path().join("out");
    let written = std::fs::read_to_string(out.join("metrics.json")).unwrap();
    assert_eq!(printed, serde_json::from_str::<serde_json::Value>(&written).unwrap());
    assert_eq!(printed["seeds"], serde_json::json!([1, 2]));
    let presto = &printed["schemes"]["presto"];
    let throughput = presto["metrics"]["elephants.throughput_gbps.mean"].as_f64().unwrap();
    assert!(throughput > 1.0 && throughput < 10.0, "{throughput}");
    assert_eq!(presto["units"]["elephants.throughput_gbps.mean"], "Gbps");
    assert!(presto["refused"]["mice.fct_ms.p999"]["needed"].as_u64() == Some(10_000));

    let mut flows = csv::Reader::from_path(out.join("flows.csv")).unwrap();
    let rows: Vec<BTreeMap<String, String>> = flows.deserialize().map(|row| row.unwrap()).collect();
    let mice = |r: &&BTreeMap<String, String>| r["scheme"] == "presto" && r["seed"] == "1" && r["workload"] == "mice";
    assert!(rows.iter().filter(mice).count() >= 40);
    for row in rows.iter().filter(|r| r["finished"] == "1") {
        let number = |key: &str| row[key].parse::<f64>().unwrap();
        assert!((number("finish_us") - number("start_us") - number("fct_us")).abs() < 1e-3, "{row:?}");
        assert!(number("slowdown") >= 1.0, "{row:?}");
    }
    let mut ports = csv::Reader::from_path(out.join("ports.csv")).unwrap();
    let rows: Vec<BTreeMap<String, String>> = ports.deserialize().map(|row| row.unwrap()).collect();
    // Two directions of 4 access and 4 fabric links, two schemes on that fabric; 4 access links on one switch.
    assert_eq!(rows.len(), 2 * (2 * 16 + 8));
    for scheme in ["ecmp", "presto", "optimal"] {
        let sent = rows.iter().filter(|r| r["scheme"] == scheme).map(|r| r["tx_packets"].parse::<u64>().unwrap());
        assert!(sent.sum::<u64>() > 1000, "{scheme}");
    }
}

#[test]
fn captures_are_pcapng_with_whole_frames_told() {
    let scratch = Scratch::new("capture");
    scratch.file("tiny.toml", TINY);
    let arguments = ["sim", "run", "tiny.toml", "--scheme", "ecmp,optimal", "--seeds", "1", "-o", "out"];
    let output = selvedge(scratch.path(), &[&arguments[..], &["--capture", "host0-leaf1"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let file = std::fs::read(scratch.path().join("out/host0-leaf1-ecmp-1.pcapng")).unwrap();
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut packets, mut last, mut full) = (0, 0, 0, 0);
    while at < file.len() {
        let (kind, length) = (word(at), word(at + 4) as usize);
        assert_eq!(length % 4, 0);
        assert_eq!(word(at + length - 4) as usize, length, "both lengths of a block agree");
        if kind == 6 {
            let ns = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
            assert!(ns >= last, "times do not fall");
            last = ns;
            packets += 1;
            assert!(word(at + 20) <= 128 && word(at + 24) <= 1514);
            full += u32::from(word(at + 24) == 1514);
            assert_eq!(file[at + 28 + 12..at + 28 + 14], [8, 0], "IPv4");
        }
        at += length;
    }
    assert_eq!(at, file.len());
    assert!(packets > 100 && full > packets / 2, "{packets} packets, {full} of them full");
    assert!(last < 6_000_000, "nanoseconds, within the run");
    assert!(!scratch.path().join("out/host0-leaf1-optimal-1.pcapng").exists(), "one switch has no leaf1");
}

#[test]
#[allow(clippy::disallowed_methods)] // a deadline for a child process
fn a_run_killed_half_way_leaves_no_results() {
    let scratch = Scratch::new("killed");
    scratch.file("long.toml", &TINY.replacen("duration = \"3ms\"", "duration = \"1000s\"", 1));
    let start = || {
        Command::new(env!("CARGO_BIN_EXE_selvedge"))
            .current_dir(scratch.path())
            .args(["sim", "run", "long.toml", "-o", "out", "--set", "record.sample_every=0s"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let begun = Instant::now();
    let started = |names: &[String]| names.iter().any(|n| n.starts_with(".out.partial"));

    let mut child = start();
    while !started(&scratch.names()) && begun.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!scratch.path().join("out").exists());
    for name in scratch.names().iter().filter(|n| n.starts_with(".out.partial")) {
        std::fs::remove_dir_all(scratch.path().join(name)).unwrap();
    }

    // Ctrl-C also removes what was begun.
    let mut child = start();
    while !started(&scratch.names()) && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(scratch.names(), ["long.toml"]);
}

#[test]
fn earlier_results_are_replaced_only_by_force() {
    let scratch = Scratch::new("force");
    scratch.file("tiny.toml", TINY);
    let run = |arguments: &[&str]| {
        let fixed = ["sim", "run", "tiny.toml", "--scheme", "ecmp", "--seeds", "1", "-o", "out"];
        selvedge(scratch.path(), &[&fixed[..], arguments].concat())
    };
    assert!(run(&[]).status.success());
    let refused = run(&[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--force"));
    std::fs::write(scratch.path().join("out/stale"), "").unwrap();
    assert!(run(&["--force"]).status.success());
    assert!(!scratch.path().join("out/stale").exists());
    assert_eq!(scratch.names(), ["out", "tiny.toml"]);
}
