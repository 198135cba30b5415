//! `selvedge sweep`: jobs that are kept one by one.

use crate::results::on_a_small_disk;
use crate::{selvedge, stderr, stdout, Scratch, TINY};
use frame::Frame;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

const AXES: &str = "[[sweep]]\nname = \"spines\"\nvalues = [1, 2]\nkeys = [\"topology.spines\"]\n\
                    [[sweep]]\nname = \"size\"\npoint = [{ label = \"small\", set = { workload.mice.size = \"1KB\" } }, \
                    { label = \"large\", set = { workload.mice.size = \"20KB\" } }]\n";

fn read(path: &Path) -> Frame {
    frame::read(std::fs::read(path).unwrap()).unwrap()
}

/// Names and bytes of all files of jobs.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir.join("jobs")).into_iter().flatten();
    let named =
        entries.map(|entry| entry.unwrap()).map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
    named.filter(|(name, _)| !name.starts_with('.')).map(|(name, path)| (name, std::fs::read(path).unwrap())).collect()
}

fn object(scratch: &Scratch, arguments: &[&str]) -> Value {
    let output = selvedge(scratch.path(), arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test]
fn a_sweep_runs_each_job_once_and_resumes() {
    let scratch = Scratch::new("jobs");
    scratch.file("s.toml", &format!("{TINY}{AXES}"));
    let common = ["sweep", "s.toml", "--scheme", "ecmp,presto", "--json"];
    let with = |more: &[&str]| object(&scratch, &[&common[..], more].concat());
    let listed = with(&["--list"]);
    let jobs = listed["jobs"].as_array().unwrap();
    let hashes: BTreeSet<&str> = jobs.iter().map(|job| job["job"].as_str().unwrap()).collect();
    assert_eq!((jobs.len(), hashes.len()), (16, 16), "2 x 2 points, 2 schemes, 2 seeds");
    assert!(jobs.iter().all(|job| job["done"] == false) && listed["directory"] == "out/s");
    assert_eq!(jobs[0]["point"], "spines=1,small");
    assert_eq!(jobs[0]["values"], serde_json::json!({"spines": 1, "size": "small"}));
    assert_eq!(scratch.names(), ["s.toml"], "a list makes nothing");

    // One job by its hash, as another machine runs it, then some, then the rest.
    let one = with(&["--job", &jobs[5]["job"].as_str().unwrap()[..8]]);
    assert_eq!((&one["ran"], one["jobs"].as_array().unwrap().len()), (&1.into(), 1));
    assert_eq!(one["jobs"][0], {
        let mut job = jobs[5].clone();
        job["done"] = true.into();
        job
    });
    assert_eq!(with(&["--job", jobs[5]["job"].as_str().unwrap()])["ran"], 0);
    assert_eq!(with(&["--at", "spines=2,large"])["ran"], 4);
    let dir = scratch.path().join("out/s");
    let before = files(&dir);
    assert_eq!(before.len(), 5);
    let rest = with(&["--jobs", "2"]);
    assert_eq!((&rest["ran"], &rest["done"]), (&11.into(), &16.into()));
    assert_eq!(with(&[])["ran"], 0, "a second call runs nothing");
    let all = files(&dir);
    assert_eq!(all.keys().map(|name| name.trim_end_matches(".parquet")).collect::<BTreeSet<_>>(), hashes);
    assert!(before.iter().all(|(name, bytes)| all[name] == *bytes));

    // Whatever order and number of cores: the same bytes.
    let again = with(&["-o", "other", "--jobs", "1"]);
    assert_eq!(again["ran"], 16);
    assert_eq!(files(&scratch.path().join("other")), all);
    let table = |dir: &str| std::fs::read(scratch.path().join(dir).join("metrics.parquet")).unwrap();
    assert!(table("other") == table("out/s"));
}

#[test]
fn a_jobs_metrics_are_those_of_a_run_and_its_configuration_is_with_them() {
    let scratch = Scratch::new("job-metrics");
    let sweep = "[sweep]\nname = \"spines\"\nvalues = [1, 2]\nkeys = [\"topology.spines\"]\n";
    scratch.file("s.toml", &format!("{TINY}{sweep}"));
    scratch.file("one.toml", TINY);
    let listed = object(&scratch, &["sweep", "s.toml", "--scheme", "presto", "--flows", "-o", "d", "--json"]);
    let output = selvedge(
        scratch.path(),
        &["sim", "run", "one.toml", "--set", "topology.spines=2", "--scheme", "presto", "-o", "r"],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let rows: Vec<BTreeMap<String, String>> = csv::Reader::from_path(scratch.path().join("r/metrics.csv"))
        .unwrap()
        .deserialize()
        .map(|row| row.unwrap())
        .collect();
    let table = read(&scratch.path().join("d/metrics.parquet"));
    let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(
        names,
        ["job", "point", "spines", "scheme", "seed", "metric", "unit", "value", "samples_needed", "samples"]
    );
    let mut found = 0;
    for row in rows.iter().filter(|row| row["seed"] != "all") {
        let cell = |name: &str, n: usize| table.column(name).unwrap().text(n).map(str::to_owned);
        let at = (0..table.rows()).find(|&n| {
            table.column("spines").unwrap().whole(n) == Some(2)
                && table.column("seed").unwrap().whole(n) == row["seed"].parse().ok()
                && cell("metric", n).as_ref() == Some(&row["metric"])
        });
        let at = at.unwrap_or_else(|| panic!("{row:?}"));
        let value = table.column("value").unwrap().number(at);
        assert_eq!(value.map(|v| v.to_string()).unwrap_or_default(), row["value"], "{row:?}");
        found += 1;
    }
    assert!(found > 50 && table.rows() == 2 * found, "{found} of {}", table.rows());

    // The configuration of a job is a scenario: it gives the job's flows.
    let last = listed["jobs"].as_array().unwrap().last().unwrap();
    let job = read(&scratch.path().join("d").join(last["file"].as_str().unwrap()));
    scratch.file("effective.toml", job.fact("selvedge.configuration").unwrap());
    assert_eq!(job.fact("selvedge.job"), last["job"].as_str());
    let output = selvedge(scratch.path(), &["sim", "run", "effective.toml", "-o", "e"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let flows = read(&scratch.path().join(format!("d/flows/{}.parquet", last["job"].as_str().unwrap())));
    let rows: Vec<BTreeMap<String, String>> = csv::Reader::from_path(scratch.path().join("e/flows.csv"))
        .unwrap()
        .deserialize()
        .map(|row| row.unwrap())
        .collect();
    assert!(!rows.is_empty() && flows.rows() == rows.len());
    for (n, row) in rows.iter().enumerate() {
        for column in &flows.columns {
            let cell = match column.values.kind() {
                frame::Kind::Text => column.values.text(n).map(str::to_owned),
                frame::Kind::Whole => column.values.whole(n).map(|v| v.to_string()),
                frame::Kind::Number => column.values.number(n).map(|v| v.to_string()),
            };
            assert_eq!(cell.unwrap_or_default(), row[&column.name], "{}: {row:?}", column.name);
        }
    }
}

#[test]
fn a_killed_sweep_loses_only_jobs_that_ran() {
    let scratch = Scratch::new("jobs-killed");
    scratch.file("s.toml", &format!("{TINY}{AXES}"));
    let arguments =
        ["sweep", "s.toml", "--scheme", "ecmp", "--seeds", "1..20", "--set", "duration=6ms", "-o", "d", "--jobs", "2"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_selvedge"))
        .current_dir(scratch.path())
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let dir = scratch.path().join("d");
    while files(&dir).len() < 10 && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    child.kill().unwrap(); // SIGKILL
    child.wait().unwrap();
    let kept = files(&dir);
    assert!(kept.len() >= 10);
    let rest = object(&scratch, &[&arguments[..], &["--json"]].concat());
    assert_eq!(rest["ran"], 80 - kept.len());
    let all = files(&dir);
    assert!(all.len() == 80 && kept.iter().all(|(name, bytes)| all[name] == *bytes));
    let left = std::fs::read_dir(dir.join("jobs")).unwrap().count();
    assert_eq!(left, 80, "what the killed process left half-written is gone");
}

#[test]
fn many_processes_may_begin_one_directory() {
    let scratch = Scratch::new("jobs-begun");
    scratch.file("s.toml", TINY);
    let common = ["sweep", "s.toml", "--scheme", "ecmp,presto", "--seeds", "1..4", "--set", "duration=2ms"];
    let listed = object(&scratch, &[&common[..], &["--list", "--json"]].concat());
    let hashes = listed["jobs"].as_array().unwrap().iter().map(|job| job["job"].as_str().unwrap());
    let single: Vec<Vec<&str>> = hashes.map(|hash| vec!["--flows", "--job", hash]).collect();
    // Workers of a cluster, each with a job, and plain sweeps that start together.
    for (round, more) in [&single, &single, &single, &single, &vec![vec!["--jobs", "1"]; 3]].into_iter().enumerate() {
        let directory = format!("d{round}");
        let start = |more: &Vec<&str>| {
            let arguments = [&common[..], &["-o", &directory], more].concat();
            let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
            command.current_dir(scratch.path()).args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let children: Vec<_> = more.iter().map(start).collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{directory}: {}", stderr(&output));
        }
        assert_eq!(files(&scratch.path().join(directory)).len(), 8);
    }
}

#[test]
fn memory_is_asked_for_where_a_job_runs() {
    let scratch = Scratch::new("jobs-memory");
    scratch.file(
        "s.toml",
        &format!("{TINY}[sweep]\nname = \"x\"\nvalues = [2, 100]\nkeys = [\"topology.hosts_per_leaf\"]\n"),
    );
    let common = ["sweep", "s.toml", "--scheme", "ecmp", "--seeds", "1..2", "--set", "duration=2ms", "-o", "d"];
    let run = |more: &[&str]| selvedge(scratch.path(), &[&common[..], more].concat());
    let listed = object(&scratch, &[&common[..], &["--list", "--json", "--memory", "1KB"]].concat());
    let hashes: Vec<&str> = listed["jobs"].as_array().unwrap().iter().map(|job| job["job"].as_str().unwrap()).collect();
    assert_eq!(hashes.len(), 4, "a list needs no memory");
    // A job that does not fit fails, and says why; another point's need is not its own.
    let output = run(&["--job", hashes[2], "--memory", "1KB"]);
    let said = stderr(&output);
    let words = format!("selvedge: job {}: s.toml:", hashes[2]);
    assert!(output.status.code() == Some(1) && said.starts_with(&words), "{said}");
    assert!(said.contains("topology.hosts_per_leaf: needs about") && said.contains("--memory allows"), "{said}");
    let bytes = |at: &str| {
        let estimate = object(&scratch, &[&common[..], &["--at", at, "--estimate", "--json", "--jobs", "1"]].concat());
        estimate["memory_bytes"].as_f64().unwrap()
    };
    let between = format!("{}B", f64::midpoint(bytes("x=2"), bytes("x=100")) as u64);
    assert!(run(&["--job", hashes[0], "--memory", &between]).status.success());
    // Here nothing runs unless there is room for all that is to run.
    let output = run(&["--memory", &between, "--jobs", "1"]);
    let said = stderr(&output);
    assert!(output.status.code() == Some(2) && said.contains("--memory allows") && said.lines().count() == 1, "{said}");
    assert_eq!(files(&scratch.path().join("d")).len(), 1);
    assert!(run(&["--memory", &between, "--jobs", "1", "--at", "x=2"]).status.success());
    // What others ran is gathered whatever it took.
    assert!(run(&[]).status.success());
    let gathered = object(&scratch, &[&common[..], &["--memory", "1KB", "--json"]].concat());
    assert_eq!((&gathered["ran"], &gathered["done"]), (&0.into(), &4.into()));
}

#[test]
fn a_sweep_counts_no_samples_of_series() {
    let scratch = Scratch::new("jobs-series");
    scratch.file("s.toml", TINY);
    let often =
        ["s.toml", "--scheme", "ecmp", "--set", "record.sample_every=1us", "--set", "topology.hosts_per_leaf=100"];
    let far =
        [&often[..], &["--set", "topology.leaves=100", "--set", "duration=1s", "--set", "workload.mice.every=10ms"]]
            .concat();
    let refused = selvedge(scratch.path(), &[&["sim", "run"], &far[..], &["--estimate"]].concat());
    assert!(stderr(&refused).contains("record.sample_every: 1us over"), "{}", stderr(&refused));
    let listed = object(&scratch, &[&["sweep"], &far[..], &["--list", "--json"]].concat());
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 2);
    let memory = |more: &[&str]| {
        let arguments = [&["sweep"], &often[..], &["--estimate", "--json"], more].concat();
        object(&scratch, &arguments)["memory_bytes"].as_f64().unwrap()
    };
    assert_eq!(memory(&[]), memory(&["--set", "record.sample_every=0s"]));
    // What the file says of them stays in the job's configuration; what makes no sense is told.
    let one = ["sweep", "s.toml", "--scheme", "ecmp", "--seeds", "1", "-o", "d", "--json"];
    let ran = object(&scratch, &[&one[..], &["--set", "record.sample_every=7us"]].concat());
    let job = read(&scratch.path().join("d").join(ran["jobs"][0]["file"].as_str().unwrap()));
    assert!(job.fact("selvedge.configuration").unwrap().contains("sample_every = \"7us\""));
    for wrong in ["1ns", "often", "4"] {
        let output =
            selvedge(scratch.path(), &["sweep", "s.toml", "--set", &format!("record.sample_every={wrong}"), "--list"]);
        let said = stderr(&output);
        assert!(output.status.code() == Some(2) && said.contains("record.sample_every"), "{wrong}: {said}");
    }
}

#[test]
fn a_full_disk_ends_a_sweep_and_keeps_its_jobs() {
    let scratch = Scratch::new("jobs-full");
    scratch.file("s.toml", TINY);
    std::fs::create_dir(scratch.path().join("disk")).unwrap();
    let run = "sweep s.toml --seeds 1..60 -o disk/d; echo rc $?; ls -A disk/d/jobs | grep -c new-; ls disk/d/jobs | grep -c parquet";
    let Some(output) = on_a_small_disk(&scratch, "200k", run) else { return };
    let (text, error) = (stdout(&output), stderr(&output));
    assert!(text.starts_with("rc 1\n0\n"), "status 1, and nothing half-written: {text}");
    assert!(text.lines().nth(2).is_some_and(|kept| kept != "0"), "{text}");
    assert!(error.contains("No space left") && error.contains("the jobs that were done are kept"), "{error}");
}

#[test]
fn what_decides_a_result_decides_its_job() {
    let scratch = Scratch::new("jobs-hash");
    let web = "[[workload]]\nname = \"web\"\npattern = \"poisson\"\nload = 0.05\ncdf = \"sizes.txt\"\n";
    scratch.file("s.toml", &format!("{TINY}{web}"));
    let hashes = |more: &[&str]| -> Vec<String> {
        let listed =
            object(&scratch, &[&["sweep", "s.toml", "--list", "--json", "--scheme", "ecmp,presto"], more].concat());
        listed["jobs"].as_array().unwrap().iter().map(|job| job["job"].as_str().unwrap().to_owned()).collect()
    };
    scratch.file("sizes.txt", "1000 0.5\n2000 1\n");
    let first = hashes(&["--seeds", "1"]);
    assert_eq!(hashes(&["--seeds", "1..2"]).iter().filter(|hash| first.contains(hash)).count(), 2, "a seed more");
    assert!(
        hashes(&["--seeds", "1", "--set", "scheme.presto.threshold=32KB"])[0] == first[0],
        "another scheme's parameter"
    );
    assert!(hashes(&["--seeds", "1", "--set", "scheme.presto.threshold=32KB"])[1] != first[1]);
    assert!(hashes(&["--seeds", "1", "--set", "switch.buffer=1MB"]).iter().all(|hash| !first.contains(hash)));
    assert_eq!(hashes(&["--seeds", "1", "--set", "record.sample_every=1ms"]), first, "the default, said");
    scratch.file("sizes.txt", "1000 0.5\n3000 1\n");
    assert!(hashes(&[]).iter().all(|hash| !first.contains(hash)), "a file that the scenario names has changed");
}

#[test]
fn mistakes_are_named_before_anything_runs() {
    let scratch = Scratch::new("jobs-mistakes");
    scratch.file("s.toml", &format!("{TINY}{AXES}"));
    scratch.file("plain.toml", TINY);
    scratch.file("late.toml", &format!("{TINY}{}", AXES.replace("values = [1, 2]", "values = [1, \"many\"]")));
    scratch.file("seed.toml", &format!("{TINY}{}", AXES.replace("\"spines\"\nv", "\"seed\"\nv")));
    std::fs::create_dir(scratch.path().join("home")).unwrap();
    scratch.file("home/thesis.tex", "");
    for (arguments, words) in [
        (&["late.toml"][..], &["late.toml:24: topology.spines: found string \"many\"", "write a whole number"][..]),
        (&["seed.toml"], &["seed.toml:", "an axis is called \"seed\"", "another name"]),
        (&["s.toml", "--at", "spines=3,small"], &["--at: ", "did you mean"]),
        (&["plain.toml", "--at", "x"], &["--at: ", "no [sweep]"]),
        (&["s.toml", "--set", "topology.spines=2"], &["--set topology.spines=2: ", "--at"]),
        (
            &["s.toml", "--set", "workload.1.size=2KB"],
            &["--set workload.1.size=2KB: workload.1.size is what [sweep]", "--at"],
        ),
        (&["s.toml", "--set", "topology={spines=2}"], &["topology.spines is what [sweep] changes", "--at"]),
        (&["s.toml", "--job", "zz"], &["--job: there is no job \"zz\"", "--list"]),
        (&["s.toml", "-o", "home"], &["home: holds files, and none of a sweep", "--output"]),
        (&["s.toml", "--scheme", "prsto"], &["--scheme", "did you mean `presto`?"]),
        (&["plain.toml", "--seeds", "9223372036854775808"], &["plain.toml: seed 9223372036854775808", "below 2^63"]),
        (&["none.toml"], &["none.toml: cannot be read"]),
    ] {
        let output = selvedge(scratch.path(), &[&["sweep"], arguments].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{arguments:?}: {said}");
        assert!(stdout(&output).is_empty() && said.lines().count() == 1, "{arguments:?}: {said}");
    }
    assert!(!scratch.path().join("out").exists());
    // What is wrong at several points is told of all.
    scratch.file("both.toml", &format!("{TINY}{}", AXES.replace("values = [1, 2]", "values = [\"few\", \"many\"]")));
    let said = stderr(&selvedge(scratch.path(), &["sweep", "both.toml"]));
    assert!(said.contains("\"few\"") && said.contains("\"many\"") && said.lines().count() == 2, "{said}");
    // A command that draws one axis says which one takes several.
    let said = stderr(&selvedge(scratch.path(), &["sim", "run", "s.toml"]));
    assert!(said.contains("sweep: has 2 axes") && said.contains("`selvedge sweep`"), "{said}");
    // A job's file that somebody damaged is named.
    let run = ["sweep", "plain.toml", "--scheme", "ecmp", "--seeds", "1", "-o", "d"];
    assert!(selvedge(scratch.path(), &run).status.success());
    let jobs = scratch.path().join("d/jobs");
    let file = std::fs::read_dir(&jobs).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&file, "PAR1").unwrap();
    let output = selvedge(scratch.path(), &run);
    let said = stderr(&output);
    assert!(output.status.code() == Some(2) && said.contains("remove it and run the sweep again"), "{said}");
}
