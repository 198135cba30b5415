//! `sim run` of a scenario with a `[sweep]`, and estimates before a run.

use crate::{selvedge, stderr, stdout, Scratch, TINY};
use std::collections::BTreeMap;
use std::path::Path;

const SWEEP: &str = "[sweep]\nname = \"spines\"\nvalues = [1, 2]\nkeys = [\"topology.spines\"]\n";

fn rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    csv::Reader::from_path(path).unwrap().deserialize().map(|row| row.unwrap()).collect()
}

#[test]
fn a_sweep_runs_every_point() {
    let scratch = Scratch::new("sweep");
    scratch.file("one.toml", TINY);
    scratch.file("all.toml", &format!("{TINY}{SWEEP}"));
    let run = |file: &str, more: &[&str]| {
        let output = selvedge(scratch.path(), &[&["sim", "run", file, "--scheme", "ecmp,presto"], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    let printed = run("all.toml", &["-o", "out"]);
    assert!(printed.contains("tiny: spines=1\n") && printed.contains("tiny: spines=2\n"), "{printed}");
    let all = rows(&scratch.path().join("out/sweep.csv"));
    let points: Vec<&str> = all.iter().map(|row| row["point"].as_str()).collect();
    assert!(points.is_sorted() && points.contains(&"spines=1") && points.contains(&"spines=2"));
    assert!(all.iter().all(|row| row["axis"] == "spines" && row["point"] == format!("spines={}", row["axis_value"])));

    // Each point has what a run of its own has, and every row.
    for spines in ["1", "2"] {
        let dir = format!("alone{spines}");
        run("one.toml", &["-o", &dir, "--set", &format!("topology.spines={spines}")]);
        let alone = rows(&scratch.path().join(dir).join("metrics.csv"));
        let mut here: Vec<BTreeMap<String, String>> =
            all.iter().filter(|row| row["axis_value"] == spines).cloned().collect();
        for row in &mut here {
            row.retain(|key, _| !["axis", "point", "axis_value"].contains(&key.as_str()));
        }
        assert_eq!(here, alone);
        assert!(here.iter().any(|row| row["seed"] == "all") && here.iter().any(|row| row["seed"] == "2"));
        let read = |path: &str| std::fs::read(scratch.path().join(path)).unwrap();
        assert_eq!(read(&format!("out/spines={spines}.flows.csv")), read(&format!("alone{spines}/flows.csv")));
    }
    let report = std::fs::read_to_string(scratch.path().join("out/report.html")).unwrap();
    assert!(report.contains("id=\"chart-sweep\"") && report.contains("<th scope=\"row\">spines=2</th>"));

    let one: serde_json::Value = serde_json::from_str(&run("all.toml", &["--json", "--at", "spines=2"])).unwrap();
    assert_eq!((&one["sweep"], &one["points"][0]["point"]), (&"spines".into(), &"spines=2".into()));
    assert_eq!(one["points"].as_array().unwrap().len(), 1);
    let alone: serde_json::Value =
        serde_json::from_str(&run("one.toml", &["--json", "--set", "topology.spines=2"])).unwrap();
    assert_eq!(one["points"][0]["results"], alone);
}

#[test]
fn points_may_set_anything_and_mistakes_are_named() {
    let scratch = Scratch::new("sweep-points");
    let point = |label: &str, set: &str| format!("[[sweep.point]]\nlabel = \"{label}\"\nset = {{ {set} }}\n");
    let sweep = "[sweep]\nname = \"x\"\n".to_owned();
    let good =
        format!("{TINY}{sweep}{}{}", point("a/b", "duration = \"2ms\""), point("c", "workload.mice.size = \"1KB\""));
    scratch.file("good.toml", &good);
    let run = |file: &str, more: &[&str]| {
        selvedge(scratch.path(), &[&["sim", "run", file, "--scheme", "ecmp", "--seeds", "1"], more].concat())
    };
    let output = run("good.toml", &["-o", "out"]);
    assert!(output.status.success(), "{}", stderr(&output));
    for (file, key) in [("out/a_2f_b.effective.toml", "duration = \"2ms\""), ("out/c.effective.toml", "size = \"1KB\"")]
    {
        let text = std::fs::read_to_string(scratch.path().join(file)).unwrap();
        assert!(text.contains(key), "{file}: {text}");
    }
    let other = ["--at", "a/b", "--set", "workload.mice.size=4KB"];
    assert!(run("good.toml", &other).status.success(), "that point changes something else");
    scratch.file("tiny.toml", TINY);
    scratch.file("values.toml", &format!("{TINY}{SWEEP}"));
    scratch.file("neither.toml", &format!("{TINY}{sweep}"));
    scratch.file("twice.toml", &format!("{TINY}{sweep}{}{}", point("a", ""), point("a", "")));
    scratch.file("late.toml", &format!("{TINY}{sweep}{}{}", point("a", ""), point("b", "switch.bufer = \"1MB\"")));
    for (file, more, words) in [
        ("good.toml", &["--at", "d"][..], ["--at: ", "there are a/b, c"]),
        ("tiny.toml", &["--at", "d"], ["--at: ", "no [sweep]"]),
        ("values.toml", &["--set", "topology.spines=2"], ["--set topology.spines=2: ", "--at"]),
        ("good.toml", &["--set", "duration=4ms"], ["--set duration=4ms: duration is what [sweep] changes", "--at"]),
        ("good.toml", &["--set", "workload.mice.size=4KB"], ["workload.mice.size is what [sweep] changes", "--at"]),
        ("neither.toml", &[], ["neither.toml:22: sweep: ", "write values"]),
        ("twice.toml", &[], ["two points are called \"a\"", "another"]),
        // Every point is checked before the first one runs.
        ("late.toml", &[], ["switch.bufer", "did you mean `buffer`?"]),
    ] {
        let output = run(file, more);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{file}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{file}: {said}");
        assert!(stdout(&output).is_empty(), "{file}: nothing ran");
    }
}

#[test]
fn an_estimate_runs_nothing() {
    let scratch = Scratch::new("estimate");
    scratch.file("tiny.toml", TINY);
    scratch.file("sweep.toml", &format!("{TINY}{SWEEP}"));
    for (file, runs) in [("tiny.toml", 6), ("sweep.toml", 12)] {
        let output = selvedge(scratch.path(), &["sim", "run", file, "--estimate"]);
        let said = stdout(&output);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(said.starts_with("Memory: about ") && said.contains(&format!(" for {runs} runs")), "{said}");
        let output = selvedge(scratch.path(), &["sim", "run", file, "--estimate", "--json", "--threads", "1"]);
        let said: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(said["runs"], runs);
        assert!(said["memory_bytes"].as_f64().unwrap() > 1e4 && said["seconds"].as_f64().unwrap() > 0.0, "{said}");
    }
    let one = ["sim", "run", "tiny.toml", "--estimate", "--scheme", "ecmp", "--seeds", "1", "--threads", "2"];
    let said = stdout(&selvedge(scratch.path(), &one));
    assert!(said.contains(", with 1 run at a time\n") && said.contains(" for 1 run on one thread each, "), "{said}");
    // Jobs of all points run beside one another, whether they are done or not.
    let sweep = ["sweep", "sweep.toml", "--estimate", "--scheme", "ecmp", "--seeds", "1..3", "--jobs", "9"];
    let output = selvedge(scratch.path(), &sweep);
    let said = stdout(&output);
    assert!(said.contains(", with 6 runs at a time\n") && said.contains(" for 6 runs on"), "{said}{}", stderr(&output));
    let of = |jobs: &str| {
        let output = selvedge(scratch.path(), &["sweep", "sweep.toml", "--estimate", "--json", "--jobs", jobs]);
        serde_json::from_str::<serde_json::Value>(&stdout(&output)).unwrap()
    };
    let (alone, both) = (of("1"), of("2"));
    assert_eq!((&alone["runs"], &both["runs"]), (&12.into(), &12.into()));
    assert!(both["memory_bytes"].as_f64() > alone["memory_bytes"].as_f64());
    for other in ["--list", "--job=0"] {
        assert_eq!(selvedge(scratch.path(), &["sweep", "sweep.toml", "--estimate", other]).status.code(), Some(2));
    }
    // More hosts need more memory, by what the refusal counts.
    let memory = |hosts: &str| {
        let set = format!("topology.hosts_per_leaf={hosts}");
        let output = selvedge(scratch.path(), &["sim", "run", "tiny.toml", "--estimate", "--json", "--set", &set]);
        serde_json::from_str::<serde_json::Value>(&stdout(&output)).unwrap()["memory_bytes"].as_f64().unwrap()
    };
    assert!(memory("8") > memory("2"));
    assert_eq!(scratch.names(), ["sweep.toml", "tiny.toml"]);
}

/// examples/scale.toml on 16 hosts.
#[test]
fn the_scenario_of_thousands_of_hosts_runs_on_a_few() {
    let scratch = Scratch::new("scale");
    scratch.file("scale.toml", include_str!("../../../../examples/scale.toml"));
    let few = ["--set", "topology.k=4", "--set", "duration=1ms", "--scheme", "ecmp"];
    let output = selvedge(scratch.path(), &[&["sim", "run", "scale.toml", "-o", "out"], &few[..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let flows = rows(&scratch.path().join("out/flows.csv"));
    assert!(!flows.is_empty() && flows.iter().all(|flow| flow["workload"] == "search"), "{flows:?}");
}
