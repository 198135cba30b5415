//! `repro --archive` beyond full runs, and `repro --check-records`.

use super::{selvedge, stderr, stdout, Scratch};
use serde_json::{json, Value};
use std::path::Path;

const ID: &str = "limiters/sec4.3.1-htb-guarantee";

fn record(dir: &Path) -> Value {
    let text = std::fs::read_to_string(dir.join("records/limiters.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(&text).unwrap()
}

fn again(dir: &Path, line: &Value) -> (Option<i32>, String) {
    std::fs::write(dir.join("records/limiters.jsonl"), format!("{line}\n")).unwrap();
    let output = selvedge(dir, &["repro", "--check-records", "--records", "records", "--hours", "0.1"]);
    (output.status.code(), format!("{}{}", stdout(&output), stderr(&output)))
}

#[test]
fn a_record_is_run_again_and_compared() {
    let scratch = Scratch::new("records");
    let dir = scratch.path();
    let archive = ["repro", "--archive", "records", ID];
    let first = selvedge(dir, &archive);
    assert_eq!(first.status.code(), Some(0), "{}", stderr(&first));
    assert!(stderr(&first).contains("nothing is left"), "{}", stderr(&first));
    let line = record(dir);
    assert_eq!((&line["mode"], &line["version"]), (&"quick".into(), &env!("CARGO_PKG_VERSION").into()));
    for key in ["configuration", "sources"] {
        assert_eq!(line[key].as_str().map(str::len), Some(16), "{key}");
    }
    assert!(line["machine"].is_string() && line["core_s"].is_number() && line["seeds"].is_u64());
    let there = selvedge(dir, &archive);
    assert!(stdout(&there).contains("1 more have a record"), "{}", stdout(&there));

    let (code, said) = again(dir, &line);
    assert!(
        code == Some(0) && said.contains("1 of 1 recorded experiments were run again: 3 of 3 values are equal"),
        "{said}"
    );
    let value = line["checks"][0]["measured"]["value"].as_f64().unwrap();
    let mut other = line.clone();
    other["checks"][0]["measured"]["value"] = json!(value * 1.000_001);
    let (code, said) = again(dir, &other);
    assert!(code == Some(1) && said.contains("with the same sources") && said.contains("1 contradict"), "{said}");
    // Of other sources it may be away by what its interval allows.
    other["sources"] = json!("0000000000000000");
    for (half, expected) in [(json!(value * 0.000_001), 0), (json!(value * 0.000_000_1), 1), (Value::Null, 0)] {
        other["checks"][0]["measured"]["ci95_half_width"] = half.clone();
        let (code, said) = again(dir, &other);
        assert_eq!(code, Some(expected), "{half}: {said}");
    }
    other["configuration"] = json!("0000000000000000");
    let (code, said) = again(dir, &other);
    assert!(code == Some(0) && said.contains("0 of 0 recorded experiments"), "another scenario's: {said}");
}

#[test]
fn what_is_dearer_than_the_processor_time_is_not_begun() {
    let scratch = Scratch::new("records-hours");
    let output =
        selvedge(scratch.path(), &["repro", "--archive", "records", "--core-hours", "0.001", "presto/fig16-cdf"]);
    let said = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(said.contains("1 more would take longer than --hours"), "{said}");
    assert!(!scratch.path().join("records").exists());
    for (arguments, problem) in [
        (&["--records", "x"][..], "nothing reads them"),
        (&["--tables", "none"], "none/README.md: cannot be read"),
        (&["--check-records", "--full"], "cannot be used with"),
    ] {
        let output = selvedge(scratch.path(), &[&["repro"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(problem), "{arguments:?}: {}", stderr(&output));
    }
}
