//! `selvedge compare`: results of every kind against one another.

use crate::{selvedge, stderr, stdout, Scratch, TINY};
use serde_json::Value;

const SWEEP: &str = "[sweep]\nname = \"spines\"\nvalues = [1, 2]\nkeys = [\"topology.spines\"]\n";

/// Status and what was printed.
fn compare(scratch: &Scratch, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = selvedge(scratch.path(), &[&["compare"], arguments].concat());
    (output.status.code(), stdout(&output), stderr(&output))
}

fn runs(scratch: &Scratch, command: &[&str], directory: &str) {
    let output = selvedge(scratch.path(), &[command, &["-o", directory]].concat());
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
}

#[test]
fn what_is_the_same_is_equal_whoever_wrote_it() {
    let scratch = Scratch::new("compare-same");
    scratch.file("all.toml", &format!("{TINY}{SWEEP}"));
    scratch.file("one.toml", TINY);
    let ran = ["sim", "run", "all.toml", "--scheme", "ecmp"];
    runs(&scratch, &ran, "run");
    runs(&scratch, &["sweep", "all.toml", "--scheme", "ecmp"], "jobs");
    for (a, b) in [("run", "jobs"), ("jobs", "run"), ("jobs", "jobs"), ("jobs/metrics.parquet", "run/sweep.csv")] {
        let (status, said, why) = compare(&scratch, &[a, b, "--json"]);
        assert_eq!(status, Some(0), "{a} {b}: {said}{why}");
        let found: Value = serde_json::from_str(&said).unwrap();
        let metrics = found["metrics"].as_array().unwrap();
        assert!(metrics.len() >= 60 && found["equal"] == metrics.len(), "{a} {b}: {found}");
        assert!(metrics.iter().all(|metric| metric["difference"]["mean"] == 0.0 && metric["paired"] == true));
        assert_eq!((&found["only_in_a"], &found["only_in_b"]), (&0.into(), &0.into()));
    }
    let (_, said, _) = compare(&scratch, &["run", "jobs", "--metric", "fct_ms.p50"]);
    assert!(
        said.starts_with("point")
            && said.contains("spines=2")
            && said.contains("2 metrics: 0 differ, 2 are equal, 0 undecided"),
        "{said}"
    );
}

#[test]
fn what_differs_is_told_with_its_interval_and_its_status() {
    let scratch = Scratch::new("compare-differs");
    scratch.file("one.toml", TINY);
    let run = ["sim", "run", "one.toml", "--scheme", "ecmp,presto", "--seeds", "1..8"];
    runs(&scratch, &run, "a");
    runs(&scratch, &[&run[..], &["--set", "workload.mice.size=40KB"]].concat(), "b");
    let (status, said, why) = compare(&scratch, &["a", "b", "--json", "--metric", "mice.fct_ms.p50"]);
    assert_eq!(status, Some(1), "{said}{why}");
    let found: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&found["differ"], found["metrics"].as_array().unwrap().len()), (&2.into(), 2));
    for metric in found["metrics"].as_array().unwrap() {
        let number = |of: &Value| of.as_f64().unwrap();
        assert_eq!(
            (&metric["verdict"], &metric["a"]["runs"], &metric["unit"]),
            (&"differs".into(), &8.into(), &"ms".into())
        );
        let difference = number(&metric["b"]["mean"]) - number(&metric["a"]["mean"]);
        assert!((number(&metric["difference"]["mean"]) - difference).abs() < 1e-9 && difference > 0.0, "{metric}");
        assert!(number(&metric["difference"]["ci95_half_width"]) < difference, "{metric}");
        assert!((number(&metric["change_percent"]) - difference / number(&metric["a"]["mean"]) * 100.0).abs() < 1e-6);
    }
    // One seed cannot tell; other seeds are compared without pairs.
    runs(&scratch, &[&run[..5], &["--seeds", "9", "--set", "workload.mice.size=40KB"]].concat(), "one");
    let (status, said, _) = compare(&scratch, &["a", "one", "--metric", "mice.fct_ms.p50"]);
    assert!(status == Some(0) && said.contains("undecided") && said.contains("0 differ"), "{said}");
}

#[test]
fn what_cannot_be_compared_is_said() {
    let scratch = Scratch::new("compare-mistakes");
    scratch.file("one.toml", TINY);
    let run = ["sim", "run", "one.toml", "--seeds", "1", "--scheme"];
    runs(&scratch, &[&run[..], &["ecmp"]].concat(), "a");
    runs(&scratch, &[&run[..], &["presto"]].concat(), "b");
    let listed = selvedge(scratch.path(), &["sweep", "one.toml", "-o", "some", "--list", "--json"]);
    let listed: Value = serde_json::from_str(&stdout(&listed)).unwrap();
    runs(&scratch, &["sweep", "one.toml", "--job", listed["jobs"][0]["job"].as_str().unwrap()], "some");
    std::fs::create_dir(scratch.path().join("empty")).unwrap();
    scratch.file("text.parquet", "no frame");
    scratch.file("bad.csv", "scheme,seed,metric,value\necmp,1,x,fast\n");
    scratch.file("columns.csv", "a,b\n1,2\n");
    scratch.file("twice.csv", "scheme,seed,metric,value\necmp,1,x,1\necmp,2,x,1\necmp,1,x,2\n");
    for (a, b, words) in [
        ("a", "b", ["have no metric of one point and scheme in common: A has schemes ecmp", "B presto"]),
        ("a", "none", ["none: is not there", "`selvedge sim run -o`"]),
        ("empty", "a", ["empty: holds no metrics", "`selvedge sim run -o`"]),
        ("some", "a", ["some: is a sweep whose jobs are not gathered", "run `selvedge sweep` once more"]),
        ("text.parquet", "a", ["text.parquet: it is no Parquet file", "`selvedge sweep` wrote"]),
        ("bad.csv", "a", ["bad.csv: line 2: the value \"fast\" is no number", "wrote"]),
        ("twice.csv", "a", ["twice.csv: line 4: has x of ecmp, seed 1, twice", "wrote"]),
        ("a", "columns.csv", ["columns.csv: has no column \"scheme\"", "wrote"]),
    ] {
        let (status, said, why) = compare(&scratch, &[a, b]);
        assert_eq!(status, Some(2), "{a} {b}: {said}{why}");
        assert!(words.iter().all(|word| why.contains(word)) && said.is_empty(), "{a} {b}: {why}");
    }
    let (status, _, why) = compare(&scratch, &["a", "a", "--metric", "no.such"]);
    assert!(status == Some(2) && why.contains("have no common metric with no.such in its name"), "{why}");
}

#[test]
fn a_table_that_lacks_jobs_is_named() {
    let scratch = Scratch::new("compare-ungathered");
    scratch.file("one.toml", TINY);
    let sweep = ["sweep", "one.toml", "--scheme", "ecmp"];
    runs(&scratch, &[&sweep[..], &["--seeds", "1..2"]].concat(), "d");
    let note = |of: &str| compare(&scratch, &["d", "d", "--metric", "all.flows"]).2 == of;
    assert!(note(""), "all are gathered");
    // A job by itself, as a scheduler runs it.
    let more = [&sweep[..], &["--seeds", "3..4", "-o", "d"]].concat();
    let listed = selvedge(scratch.path(), &[&more[..], &["--list", "--json"]].concat());
    let listed: Value = serde_json::from_str(&stdout(&listed)).unwrap();
    let job = listed["jobs"][0]["job"].as_str().unwrap();
    runs(&scratch, &[&more[..6], &["--job", job]].concat(), "d");
    let said = "selvedge: d: its table lacks 1 job that is done; run `selvedge sweep` once more, which gathers them\n";
    assert!(note(&said.repeat(2)), "{}", compare(&scratch, &["d", "d"]).2);
    assert_eq!(compare(&scratch, &["d/metrics.parquet", "d/metrics.parquet"]).2, "", "a file is what it is");
    // The index is of all jobs, and the table of some: the call that was to gather them was killed.
    let old = std::fs::read(scratch.path().join("d/metrics.parquet")).unwrap();
    runs(&scratch, &[&sweep[..], &["--seeds", "1..4"]].concat(), "d");
    assert!(note(""));
    std::fs::write(scratch.path().join("d/metrics.parquet"), old).unwrap();
    assert!(note(&said.replace("1 job that is", "2 jobs that are").repeat(2)));
    // What an earlier call left, and the last does not have, belongs to no table.
    runs(&scratch, &[&sweep[..], &["--seeds", "1"]].concat(), "d");
    assert!(note(""));
}
