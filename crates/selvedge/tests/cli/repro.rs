//! The harness, on an experiment small enough for a test.

use crate::{selvedge, stderr, stdout, Scratch, TINY};
use serde_json::Value;

const RESULTS: &str = r#"
[sweep]
name = "leaves"
values = [2, 3]
keys = ["topology.leaves"]

[mode.full]
seeds = "5"

[[result]]
id = "test/good"
source = "section 1"
what = "elephants move"
[[result.checks]]
text = "more than nothing"
expr = "presto.elephants.throughput_gbps.mean > 0 && leaves >= 2"
value = "presto.elephants.throughput_gbps.mean / leaves"
unit = "Gbps per leaf"
paper = 9.3

[[result]]
id = "test/bad"
source = "section 2"
what = "the impossible"
at = ["leaves=3"]
[[result.checks]]
text = "more than the line carries"
expr = "presto.elephants.throughput_gbps.mean > 10"

[[result]]
id = "test/later"
source = "section 3"
what = "what cannot be told yet"
[[result.checks]]
text = "a scheme to come"
expr = "mptcp.elephants.throughput_gbps.mean > 0"
[[result.checks]]
text = "a tail without the samples"
expr = "presto.mice.fct_ms.p999 > 0"
paper = "more than 7.5"
[[result.checks]]
text = "a metric that nobody has"
expr = "presto.elephants.throughput_gpbs.mean > 0"
"#;

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_result_holds_fails_or_says_why_it_was_not_run() {
    let scratch = Scratch::new("repro");
    scratch.file("x.toml", &format!("{TINY}{RESULTS}"));
    let output = selvedge(scratch.path(), &["repro", "x.toml", "--json", "-o", "out"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let results = lines(&stdout(&output));
    let ids: Vec<&str> = results.iter().map(|r| r["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["test/good", "test/bad", "test/later"]);
    for result in &results {
        let keys: Vec<&String> = result.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["checks", "holds", "id", "mode", "reason", "seeds", "source", "status", "wall_s"]);
        for check in result["checks"].as_array().unwrap() {
            assert_eq!(check.as_object().unwrap().keys().collect::<Vec<_>>(), ["holds", "measured", "paper", "text"]);
        }
        assert_eq!(result["mode"], "quick");
        assert_eq!(result["seeds"], serde_json::json!([1, 2]));
    }
    let [good, bad, later] = &results[..] else { panic!() };
    assert_eq!((&good["status"], &good["holds"], &good["reason"]), (&"holds".into(), &true.into(), &Value::Null));
    assert_eq!(good["checks"][0]["paper"], 9.3);
    let points = good["checks"][0]["measured"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    for point in points {
        let (value, leaves) = (point["value"].as_f64().unwrap(), if point["at"] == "leaves=2" { 2.0 } else { 3.0 });
        let mean = point["metrics"]["presto.elephants.throughput_gbps.mean"].as_f64().unwrap();
        assert!((value - mean / leaves).abs() < 1e-9);
        // The check's number is the metric over a constant, and so is its interval, but for the digits that are kept.
        let of = |key: &str| point[key].as_f64().unwrap();
        let half = point["metrics_ci95_half_width"]["presto.elephants.throughput_gbps.mean"].as_f64().unwrap();
        assert!((half / leaves - of("ci95_half_width")).abs() <= 0.01 * of("ci95_half_width"), "{point}");
    }
    assert_eq!((&bad["status"], &bad["holds"]), (&"fails".into(), &false.into()));
    assert!(bad["reason"].as_str().unwrap().contains("more than the line carries"));
    assert_eq!(bad["checks"][0]["measured"].as_array().unwrap().len(), 1, "only the point that counts");
    assert_eq!((&later["status"], &later["holds"]), (&"not-run".into(), &false.into()));
    let reason = later["reason"].as_str().unwrap();
    for part in ["no scheme mptcp", "needs 10000 samples", "throughput_gbps.mean"] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    assert!(later["checks"].as_array().unwrap().iter().all(|c| c["holds"].is_null() && c["measured"].is_null()));

    let written = std::fs::read_to_string(scratch.path().join("out/results.jsonl")).unwrap();
    assert_eq!(written, stdout(&output));
    let report = std::fs::read_to_string(scratch.path().join("out/x.html")).unwrap();
    assert!(report.contains("test/later") && report.contains("more than 7.5"));
    assert!(scratch.path().join("out/x.leaves_3.effective.toml").is_file());
}

#[test]
fn a_check_may_compare_points_of_the_sweep() {
    let scratch = Scratch::new("repro-points");
    let sweep = RESULTS.split("[[result]]").next().unwrap();
    let result = |expr: &str| {
        let tables =
            "[[result]]\nid = \"test/points\"\nsource = \"s\"\nwhat = \"w\"\nat = [\"leaves=2\"]\n[[result.checks]]";
        format!("{TINY}{sweep}{tables}\ntext = \"t\"\nexpr = \"{expr}\"\n")
    };
    // With three leaves there are more hosts, so more flows.
    for (expr, status) in [
        ("presto.all.flows[leaves=3] > presto.all.flows", "holds"),
        ("presto.all.flows[leaves=3] > presto.all.flows[leaves=2]", "holds"),
        ("presto.all.flows[leaves=3] <= presto.all.flows", "fails"),
    ] {
        scratch.file("points.toml", &result(expr));
        let output = selvedge(scratch.path(), &["repro", "points.toml", "--json"]);
        let results = lines(&stdout(&output));
        assert_eq!(results[0]["status"], status, "{expr}: {}", stderr(&output));
        assert_eq!(results[0]["checks"][0]["measured"].as_array().unwrap().len(), 1, "only the point that counts");
    }
}

#[test]
fn jobs_are_the_flows_a_seed_of_the_open_loop_workload_that_a_check_names() {
    let scratch = Scratch::new("repro-jobs");
    let web = "[[workload]]\nname = \"web-search\"\npattern = \"poisson\"\ncdf = \"websearch\"\nload = 0.6\n";
    let check = |metric: &str| format!("[[result.checks]]\ntext = \"{metric}\"\nexpr = \"ecmp.{metric} >= 0\"\n");
    let checks: String =
        ["web_search.unfinished", "mice.unfinished", "elephants.jain", "all.flows"].map(check).concat();
    let result = format!("[[result]]\nid = \"test/jobs\"\nsource = \"s\"\nwhat = \"w\"\n{checks}");
    scratch.file("x.toml", &format!("{TINY}{web}{result}"));
    let output = selvedge(scratch.path(), &["repro", "--quick", "x.toml", "--json", "-o", "out"]);
    let results = lines(&stdout(&output));
    let flows = std::fs::read_to_string(scratch.path().join("out/x.flows.csv")).unwrap();
    // By the definition of W.flows, from the rows of flows: scheme, seed, flow, workload, src, dst, size, start.
    let started = |workload: &str| {
        let rows = flows.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
        let counts = |row: &Vec<&str>| {
            row[0] == "ecmp" && row[3] == workload && !row[6].is_empty() && row[7].parse::<f64>().unwrap() >= 1000.0
        };
        (rows.filter(counts).count() as f64 / 2.0).round() as u64
    };
    assert!(started("web-search") > 0 && started("web-search") != started("mice"), "{flows}");
    let jobs = |n: usize| &results[0]["checks"][n]["measured"]["jobs"];
    assert_eq!(jobs(0).as_u64(), Some(started("web-search")), "{}", stderr(&output));
    assert_eq!(jobs(1).as_u64(), Some(started("mice")));
    assert!(jobs(2).is_null() && jobs(3).is_null(), "of no such workload");
}

#[test]
fn a_percentile_for_which_single_seeds_have_too_few_samples_has_an_interval() {
    let scratch = Scratch::new("repro-interval");
    let result = "[[result]]\nid = \"test/tail\"\nsource = \"s\"\nwhat = \"w\"\n[[result.checks]]\ntext = \"t\"\n\
                  expr = \"presto.mice.fct_ms.p90 > 0\"\nvalue = \"presto.mice.fct_ms.p90\"\n";
    // Forty mice a seed; a 90th percentile needs a hundred.
    for (seeds, known) in [("1..5", true), ("1..3", false)] {
        scratch.file("x.toml", &format!("{}{result}", TINY.replace("1..2", seeds)));
        let output = selvedge(scratch.path(), &["repro", "x.toml", "--json"]);
        let measured = &lines(&stdout(&output))[0]["checks"][0]["measured"];
        assert!(measured["value"].as_f64().unwrap() > 0.0, "{}", stderr(&output));
        assert_eq!(measured["ci95_half_width"].is_f64(), known, "{seeds} seeds: {measured}");
    }
}

#[test]
fn exit_status_is_0_only_if_all_that_was_asked_for_holds() {
    let scratch = Scratch::new("repro-exit");
    let good = RESULTS.split("[[result]]\nid = \"test/bad\"").next().unwrap();
    scratch.file("good.toml", &format!("{TINY}{good}"));
    let output = selvedge(scratch.path(), &["repro", "--full", "good.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("1 results (full): 1 hold, 0 fail, 0 not run"), "{}", stdout(&output));
}

#[test]
fn a_full_run_takes_the_seeds_that_it_needs_and_an_archive_goes_on_where_it_was() {
    let scratch = Scratch::new("repro-archive");
    let check = |id: &str, expr: &str| {
        format!("[[result]]\nid = \"test/{id}\"\nsource = \"s\"\nwhat = \"w\"\n[[result.checks]]\ntext = \"t\"\nexpr = \"{expr}\"\n")
    };
    let all = [
        check("sure", "presto.elephants.throughput_gbps.mean > 0"),
        check("never", "presto.elephants.throughput_gbps.mean > 10"),
        // As often one as the other: its margin is zero on average.
        check("open", "presto.elephants.throughput_gbps.mean > presto.elephants.throughput_gbps.mean || presto.mice.fct_ms.p50 < 0"),
    ];
    scratch.file("x.toml", &format!("{TINY}{}", all[..2].concat()));
    let archive = ["repro", "x.toml", "--full", "--json", "--archive", "records"];
    let output = selvedge(scratch.path(), &archive);
    let results = lines(&stdout(&output));
    let told: Vec<(&str, usize)> =
        results.iter().map(|r| (r["status"].as_str().unwrap(), r["seeds"].as_array().unwrap().len())).collect();
    assert_eq!(told, [("holds", 5), ("fails", 5)], "{}", stderr(&output));
    let kept = || lines(&std::fs::read_to_string(scratch.path().join("records/x.jsonl")).unwrap());
    let ids = |records: &[Value]| records.iter().map(|r| r["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(
        (ids(&kept()), kept()[0]["seeds"].as_u64()),
        (vec!["test/never".to_owned(), "test/sure".into()], Some(5))
    );
    // Nothing is left to do; another check is.
    let again = selvedge(scratch.path(), &archive);
    assert_eq!((again.status.code(), stdout(&again)), (Some(0), String::new()));
    scratch.file("x.toml", &format!("{TINY}{}", all.concat()));
    let more = selvedge(scratch.path(), &archive);
    assert_eq!(lines(&stdout(&more)).len(), 1, "{}", stderr(&more));
    assert_eq!(kept().len(), 3);
    let whole = selvedge(scratch.path(), &[&archive[..], &["--again"]].concat());
    assert_eq!(lines(&stdout(&whole)).len(), 3);
    // What is no record is named, and nothing of it is lost.
    std::fs::write(scratch.path().join("records/x.jsonl"), "half").unwrap();
    let broken = selvedge(scratch.path(), &archive);
    assert!(broken.status.code() == Some(2) && stderr(&broken).contains("x.jsonl: line 1: "), "{}", stderr(&broken));
    assert_eq!(std::fs::read_to_string(scratch.path().join("records/x.jsonl")).unwrap(), "half");
}

#[test]
fn what_a_result_was_decided_with_stays_when_another_needs_more_seeds_of_its_points() {
    let scratch = Scratch::new("repro-shared");
    let sweep = RESULTS.split("[[result]]").next().unwrap();
    let check = |id: &str, expr: &str| {
        format!("[[result]]\nid = \"test/{id}\"\nsource = \"s\"\nwhat = \"w\"\nat = [\"leaves=2\"]\n[[result.checks]]\ntext = \"t\"\nexpr = \"{expr}\"\n")
    };
    let both = check("both", "presto.all.flows[leaves=3] > presto.all.flows");
    let tail = check("tail", "presto.mice.fct_ms.p999 > 0");
    scratch.file("x.toml", &format!("{TINY}{sweep}{both}{tail}"));
    let output = selvedge(scratch.path(), &["repro", "x.toml", "--full", "--json"]);
    let results = lines(&stdout(&output));
    assert_eq!(results.len(), 2, "{}", stderr(&output));
    assert_eq!((&results[0]["status"], results[0]["seeds"].as_array().unwrap().len()), (&"holds".into(), 5));
    assert!(results[1]["seeds"].as_array().unwrap().len() > 5, "{}", results[1]);
}

#[test]
fn the_list_shows_what_is_there() {
    let scratch = Scratch::new("repro-list");
    let output = selvedge(scratch.path(), &["repro", "--list", "--json"]);
    assert!(output.status.success());
    let all = lines(&stdout(&output));
    let ids: Vec<&str> = all.iter().map(|r| r["id"].as_str().unwrap()).collect();
    for id in
        ["presto/fig15-stride", "presto/fig7-presto-optimal", "presto/fig5a-presto-zero", "presto/fig16-ecmp-tail"]
    {
        assert!(ids.contains(&id), "{id}");
    }
    assert!(ids.iter().all(|id| !id.starts_with("demo/")), "the demonstration is no published result");
    let one = selvedge(scratch.path(), &["repro", "--list", "--json", "presto/fig5a"]);
    assert_eq!(lines(&stdout(&one)).len(), 2, "a group");
    // An experiment is none whose name merely begins like it.
    for (word, alone) in [("presto/fig15", true), ("presto/fig15*", false)] {
        let listed = lines(&stdout(&selvedge(scratch.path(), &["repro", "--list", "--json", word])));
        let like = |id: &&serde_json::Value| id["id"].as_str().unwrap().starts_with("presto/fig15-mptcp");
        assert_eq!((listed.iter().any(|id| like(&id)), listed.iter().all(|id| like(&id))), (!alone, false), "{word}");
    }
    let starred = selvedge(scratch.path(), &["repro", "--list", "--json", "presto/*"]);
    assert_eq!(lines(&stdout(&starred)).len(), ids.iter().filter(|id| id.starts_with("presto/")).count());
}

#[test]
fn a_bad_experiment_is_refused_where_it_stands() {
    let scratch = Scratch::new("repro-bad");
    let mut wrong = String::new();
    for (from, to, line, remedy) in [
        ("expr = \"presto.elephants.throughput_gbps.mean > 10\"", "expr = \"presto.a.b >\"", 49, "write a comparison"),
        ("at = [\"leaves=3\"]", "at = [\"leaves=4\"]", 46, "name \"leaves="),
        ("mean > 10\"", "mean[leaves=4] > 10\"", 49, "name \"leaves="),
        ("paper = 9.3", "papr = 9.3", 40, "did you mean `paper`?"),
        ("keys = [\"topology.leaves\"]", "keys = [\"topology.leafs\"]", 26, "did you mean `leaves`?"),
        ("seeds = \"5\"", "sedes = \"5\"", 29, "did you mean `seeds`?"),
        ("id = \"test/bad\"", "id = \"test/good\"", 43, "rename one"),
    ] {
        assert!(RESULTS.contains(from), "{from}");
        scratch.file("bad.toml", &format!("{TINY}{}", RESULTS.replacen(from, to, 1)));
        let output = selvedge(scratch.path(), &["repro", "bad.toml", "--full"]);
        let message = stderr(&output);
        let place = format!("selvedge: bad.toml:{line}: ");
        if output.status.code() != Some(2) || !message.starts_with(&place) || !message.contains(remedy) {
            wrong += &format!("{to}\n  expected {place}... {remedy}\n  got      {message}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_check_that_could_not_fail_or_be_evaluated_is_refused_before_anything_runs() {
    for expr in
        ["true", "1 > 0", "presto.elephants.jain", "foo(presto.elephants.jain) > 1", "min(presto.elephants.jain) > 0"]
    {
        let scratch = Scratch::new("refused");
        let broken = RESULTS.replace("presto.elephants.throughput_gbps.mean > 10", expr);
        scratch.file("x.toml", &format!("{TINY}{broken}"));
        let output = selvedge(scratch.path(), &["repro", "x.toml", "--json"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{expr}: {said}");
        assert!(
            said.contains("x.toml:") && said.contains("result.test/bad.checks.0.expr") && said.contains("write a"),
            "{said}"
        );
    }
}

/// docs/united.md says what each system keeps of its own figure beside the others.
#[test]
fn all_systems_on_one_edge_keep_what_docs_say() {
    let scratch = Scratch::new("united");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/united.toml");
    let output = selvedge(scratch.path(), &["repro", "--quick", file]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("6 hold, 0 fail"), "{}", stdout(&output));
}
