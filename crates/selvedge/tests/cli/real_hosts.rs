//! `repro --real-hosts`: what it starts, judges and keeps. The commands here are stand-ins, so that no privilege is needed.

use super::{selvedge, stderr, stdout, Scratch};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const ID: &str = "acdc/fig3.12-max";

/// A source tree whose `bench/edge/run` is this script.
fn tree(dir: &Path, script: &str) {
    fs::create_dir_all(dir.join("results/catalogue")).unwrap();
    fs::create_dir_all(dir.join("bench/edge")).unwrap();
    let run = dir.join("bench/edge/run");
    fs::write(&run, format!("#!/bin/sh\necho \"$@\" >>calls\n{script}\n")).unwrap();
    fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).unwrap();
}

/// CPU a GB in two rounds, with AC/DC and without.
fn measured(acdc: [f64; 2]) -> String {
    let round = |acdc: f64| {
        let one = |n: u32| format!("\"acdc.cpu[flows={n}]\": {acdc}, \"edge.cpu[flows={n}]\": 1.0");
        format!("{{{}, {}, {}}}", one(100), one(1000), one(10000))
    };
    let rounds = acdc.map(round).join(", ");
    format!("cat >\"$SELVEDGE_SAMPLES\" <<END\n{{\"machine\": \"here\", \"rounds\": [{rounds}]}}\nEND")
}

#[test]
fn a_command_is_run_judged_and_kept_once() {
    let scratch = Scratch::new("real-hosts");
    let dir = scratch.path();
    tree(dir, &measured([1.05, 1.051]));
    let archive = ["repro", "--real-hosts", "--archive", "records", ID];
    let first = selvedge(dir, &archive);
    assert_eq!(first.status.code(), Some(0), "{}{}", stdout(&first), stderr(&first));
    assert!(
        stderr(&first).contains("1 of 1: bench/edge/run --congestion --classes (acdc/fig3.12-max)"),
        "{}",
        stderr(&first)
    );
    assert!(
        stdout(&first).contains("1 claims on real hosts: 1 hold, 0 fail, 0 undecided, 0 not run"),
        "{}",
        stdout(&first)
    );
    let line: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(dir.join("records/acdc.jsonl")).unwrap()).unwrap();
    assert_eq!((&line["id"], &line["status"], &line["seeds"]), (&ID.into(), &"holds".into(), &2.into()));
    assert_eq!((&line["machine"], line["configuration"].as_str().map(str::len)), (&"here".into(), Some(16)));
    let there = selvedge(dir, &archive);
    assert!(stdout(&there).contains("1 more have a record"), "{}", stdout(&there));
    assert_eq!(fs::read_to_string(dir.join("calls")).unwrap(), "--congestion --classes\n", "once");

    // What could not be run leaves the record as it is.
    tree(dir, "echo bench/edge/run: needs root >&2; exit 1");
    let not_run = selvedge(dir, &[&archive[..], &["--again", "--json"]].concat());
    assert_eq!(not_run.status.code(), Some(1));
    let said: serde_json::Value = serde_json::from_str(&stdout(&not_run)).unwrap();
    assert_eq!((&said["status"], &said["reason"]), (&"not-run".into(), &"bench/edge/run: needs root".into()));
    assert!(fs::read_to_string(dir.join("records/acdc.jsonl")).unwrap().contains("\"holds\""));

    tree(dir, &measured([1.3, 1.301]));
    assert_eq!(selvedge(dir, &[&archive[..], &["--again"]].concat()).status.code(), Some(1));
    let site = selvedge(dir, &["repro", "--site", "site", "--records", "records"]);
    assert_eq!(site.status.code(), Some(0), "{}", stderr(&site));
    let index = fs::read_to_string(dir.join("site/index.html")).unwrap();
    let row = index.split("<tr id=\"").find(|row| row.starts_with(ID)).unwrap();
    assert!(row.contains("wrong size") && row.contains("on real hosts: fails: 1.30 ± "), "{row}");
}

#[test]
fn what_makes_no_sense_is_told_with_a_remedy() {
    let scratch = Scratch::new("real-hosts-bad");
    let dir = scratch.path();
    let outside = selvedge(dir, &["repro", "--real-hosts", ID]);
    assert_eq!(outside.status.code(), Some(2));
    assert!(stderr(&outside).contains("run it in the source tree"), "{}", stderr(&outside));
    let list = selvedge(dir, &["repro", "--real-hosts", "--list", "limiters"]);
    assert_eq!((list.status.code(), stdout(&list).lines().count()), (Some(0), 2), "{}", stdout(&list));
    tree(dir, "exit 1");
    fs::create_dir(dir.join("records")).unwrap();
    fs::write(dir.join("records/acdc.jsonl"), "{\"id\": \"acdc/fig3.11\", \"status\": \"holds\"}\nbroken\n").unwrap();
    for (arguments, problem) in [
        (&["acdc/fig3.12-mx"][..], "did you mean acdc/fig3.12-max?"),
        (&["acdc/fig3.1a"], "no command decides acdc/fig3.1a on real hosts"),
        (&["limiters/priority-argument"], "needs a kernel with priority queues"),
        (&["fastlane"], "no command decides a claim of fastlane"),
        (&["--quick", ID], "cannot be used with"),
        (&["--archive", "records", ID], "acdc.jsonl: line 2"),
    ] {
        let output = selvedge(dir, &[&["repro", "--real-hosts"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stdout(&output));
        assert!(stderr(&output).contains(problem), "{arguments:?}: {}", stderr(&output));
    }
    assert!(!dir.join("calls").exists(), "nothing was started");
}
