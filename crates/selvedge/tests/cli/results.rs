//! What a run writes.

use crate::{selvedge, stderr, stdout, Scratch, TINY};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
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
            ".selvedge-files",
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
            "series.csv",
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

/// What was sampled agrees with the means that other files have.
#[test]
fn series_add_up_to_what_ports_and_flows_say() {
    let scratch = Scratch::new("series");
    scratch.file("tiny.toml", TINY);
    let fixed = ["sim", "run", "tiny.toml", "--scheme", "ecmp,optimal", "-o", "out"];
    let output = selvedge(scratch.path(), &[&fixed[..], &["--set", "record.sample_every=100us"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let rows = |file: &str| -> Vec<BTreeMap<String, String>> {
        let mut csv = csv::Reader::from_path(scratch.path().join("out").join(file)).unwrap();
        csv.deserialize().map(|row| row.unwrap()).collect()
    };
    let series = rows("series.csv");
    let number = |row: &BTreeMap<String, String>, key: &str| row[key].parse::<f64>().unwrap();
    let of = |like: &BTreeMap<String, String>, metric: &str, name: &str| -> Vec<(f64, f64)> {
        let same = |row: &&BTreeMap<String, String>| {
            row["metric"] == metric
                && row["name"] == name
                && row["scheme"] == like["scheme"]
                && row["seed"] == like["seed"]
        };
        series.iter().filter(same).map(|row| (number(row, "time_us"), number(row, "value"))).collect()
    };
    for port in rows("ports.csv") {
        let used = of(&port, "utilisation", &port["port"]);
        let times: Vec<f64> = used.iter().map(|(at, _)| *at).collect();
        assert_eq!(times, (11..=30).map(|n| f64::from(n) * 100.0).collect::<Vec<_>>(), "after the warm-up, to the end");
        let mean = used.iter().map(|(_, value)| value).sum::<f64>() / 20.0;
        assert!((mean - number(&port, "utilisation")).abs() < 0.02, "{port:?}: {mean}");
        let most = of(&port, "queue_bytes", &port["port"]).iter().map(|(_, bytes)| *bytes).fold(0.0, f64::max);
        assert!(most <= number(&port, "queue_max_bytes"), "{port:?}: {most}");
    }
    let endless: Vec<_> = rows("flows.csv").into_iter().filter(|flow| flow["size_bytes"].is_empty()).collect();
    assert_eq!(endless.len(), 2 * 2 * 4);
    for flow in endless {
        let gbps = of(&flow, "goodput_gbps", &flow["flow"]);
        let bytes = gbps.iter().map(|(_, gbps)| gbps * 1e9 / 8.0 * 100e-6).sum::<f64>();
        let told = number(&flow, "delivered_after_warmup_bytes");
        assert!((bytes - told).abs() <= 0.1 * told, "{flow:?}: {bytes}");
    }
}

/// Flows without an end are told with their cause, and drawn beside the failures.
#[test]
fn unfinished_flows_have_a_cause() {
    let scratch = Scratch::new("unfinished");
    // The only spine of two loses a link, and tables change long after the end: what crosses it is lost.
    let failure = "[[failure]]\nat = \"1500us\"\nlink = \"leaf1-spine1\"\n";
    scratch.file("broken.toml", &format!("{TINY}{failure}"));
    let set = ["topology.spines=1", "host.tcp.rto_min=500us", "host.tcp.rto_initial=1ms", "switch.reroute_after=1s"];
    let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
    let fixed = ["sim", "run", "broken.toml", "--scheme", "ecmp", "-o", "out"];
    let output = selvedge(scratch.path(), &[&fixed[..], &set].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stdout(&output);
    assert!(
        said.contains("flows had not finished (") && said.contains("lost their first packets and waited"),
        "{said}"
    );
    let report = std::fs::read_to_string(scratch.path().join("out/report.html")).unwrap();
    assert!(report.contains("id=\"chart-timeline\"") && report.contains("<td>leaf1-spine1 fails</td>"));
    assert!(report.contains("<td>lost their first packets and waited for timeouts</td>"));

    // Of a sweep all points are drawn, and a failure that they share is told once.
    let sweep = "[sweep]\nname = \"drain\"\nvalues = [\"1ms\", \"2ms\"]\nkeys = [\"drain\"]\n";
    scratch.file("broken.toml", &format!("{TINY}{failure}{sweep}"));
    let output = selvedge(scratch.path(), &[&fixed[..], &["--force"], &set].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let report = std::fs::read_to_string(scratch.path().join("out/report.html")).unwrap();
    let first = |text: &str| report.contains(&format!("<th scope=\"row\">{text}</td>"));
    assert!(first("drain=1ms, drain=2ms</th><td>1.50</td><td>leaf1-spine1 fails"));
    assert!(first("drain=1ms</th><td>ecmp") && first("drain=2ms</th><td>ecmp"));
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
    // Whatever memory is free: the run is killed long before it needs any.
    let start = || {
        Command::new(env!("CARGO_BIN_EXE_selvedge"))
            .current_dir(scratch.path())
            .args(["sim", "run", "long.toml", "-o", "out", "--set", "record.sample_every=0s", "--memory", "1000GB"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let begun = Instant::now();
    // With what makes it known as one: of an empty directory nobody knows whose it is.
    let marked = |name: &String| scratch.path().join(name).read_dir().is_ok_and(|mut files| files.next().is_some());
    let started = |names: &[String]| names.iter().any(|n| n.starts_with(".out.partial") && marked(n));

    let mut child = start();
    while !started(&scratch.names()) && begun.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!scratch.path().join("out").exists());
    let left: Vec<String> = scratch.names().into_iter().filter(|n| n.starts_with(".out.partial")).collect();
    assert_eq!(left.len(), 1, "nobody could remove it");

    // The next run removes that. Ctrl-C also removes what was begun.
    let mut child = start();
    let replaced = |names: &[String]| started(names) && !names.contains(&left[0]);
    while !replaced(&scratch.names()) && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (names, in_time) = (scratch.names(), replaced(&scratch.names()));
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(in_time, "{names:?}");
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
    // What no run wrote, it does not remove.
    let thesis = scratch.path().join("out/thesis.tex");
    std::fs::write(&thesis, "chapter 1").unwrap();
    let refused = run(&["--force"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("holds \"thesis.tex\", which no run of selvedge wrote"), "{}", stderr(&refused));
    assert_eq!(std::fs::read_to_string(&thesis).unwrap(), "chapter 1");
    std::fs::remove_file(&thesis).unwrap();
    let before = std::fs::metadata(scratch.path().join("out/flows.csv")).unwrap().ino();
    assert!(run(&["--force", "--xml"]).status.success());
    assert_ne!(std::fs::metadata(scratch.path().join("out/flows.csv")).unwrap().ino(), before);
    // What only the earlier run wrote goes with it.
    assert!(scratch.path().join("out/flowmonitor-ecmp-1.xml").exists());
    assert!(run(&["--force"]).status.success());
    assert!(!scratch.path().join("out/flowmonitor-ecmp-1.xml").exists());
    assert_eq!(scratch.names(), ["out", "tiny.toml"]);
}

#[test]
fn a_full_disk_costs_the_files_and_not_the_table() {
    let scratch = Scratch::new("full");
    scratch.file("tiny.toml", TINY);
    std::fs::create_dir(scratch.path().join("disk")).unwrap();
    // One is full before the first table, the other in the middle of the series.
    for (size, more, file) in [("32k", "", ""), ("200k", "--set record.sample_every=1us", "disk/out/series.csv")] {
        let run = format!("sim run tiny.toml --scheme ecmp --seeds 1 -o disk/out {more}; echo rc $?; ls -A disk");
        let Some(output) = on_a_small_disk(&scratch, size, &run) else { return };
        let (text, error) = (stdout(&output), stderr(&output));
        assert!(text.contains("throughput"), "the table is printed: {text}\n{error}");
        assert!(text.ends_with("\nrc 1\n"), "status 1, and nothing is left: {text}");
        assert!(!text.contains("Results:"), "{text}");
        assert!(error.contains("No space left") && error.contains("free some space"), "{error}");
        assert!(error.contains(file), "{error}");
    }
}

/// Runs the binary with these arguments where `disk` is a file system of this size; `None`, with a printed reason, where that cannot be.
pub(crate) fn on_a_small_disk(scratch: &Scratch, size: &str, run: &str) -> Option<Output> {
    let mount = format!("mount -t tmpfs -o size={size} none disk 2>/dev/null || exit 77");
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &format!("{mount}; \"$0\" {run}"), env!("CARGO_BIN_EXE_selvedge")])
        .current_dir(scratch.path())
        .output();
    let output = output.ok().filter(|output| output.status.success());
    if output.is_none() {
        println!("skipped: a small file system cannot be mounted here: needs root");
    }
    output
}

/// `selvedge ... 2>&1 | tee log`: what Ctrl-C ends at the terminal are both, and the reader may be first.
#[test]
fn an_interrupt_that_nobody_can_be_told_of_ends_the_run_all_the_same() {
    let scratch = Scratch::new("untold");
    scratch.file("long.toml", &TINY.replacen("duration = \"3ms\"", "duration = \"1000s\"", 1));
    let mut child = Command::new(env!("CARGO_BIN_EXE_selvedge"))
        .current_dir(scratch.path())
        .args(["sim", "run", "long.toml", "-o", "out", "--set", "record.sample_every=0s", "--memory", "1000GB"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    while scratch.names().len() < 2 && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    // Before, it went on for hours: more than enough time, and an end of the test.
    let ended = (0..6000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(5));
        child.try_wait().unwrap()
    });
    let _ = child.kill();
    assert_eq!(ended.and_then(|status| status.code()), Some(130));
    assert_eq!(scratch.names(), ["long.toml"]);
}

#[test]
fn standard_output_that_cannot_be_written_is_an_error() {
    let scratch = Scratch::new("stdout");
    scratch.file("tiny.toml", TINY);
    let run = |command: &str| {
        let script = command.replace("selvedge", "\"$0\"");
        let arguments = ["-c", &script, env!("CARGO_BIN_EXE_selvedge")];
        Command::new("bash").args(arguments).current_dir(scratch.path()).output().unwrap()
    };
    for command in ["doctor", "--version", "--help", "repro --list", "completions bash"] {
        for (target, why) in [("&-", "it is closed"), ("/dev/full", "No space left")] {
            let output = run(&format!("selvedge {command} >{target}"));
            let error = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{command} >{target}: {error}");
            assert!(error.contains("cannot write to standard output") && error.contains(why), "{command}: {error}");
        }
        assert!(run(&format!("selvedge {command} >/dev/null")).status.success());
    }
    // A reader that has enough is no error to speak of, and the status says what became of it, as a shell would.
    let output = run("selvedge completions bash | true; echo ${PIPESTATUS[0]}");
    assert!(stderr(&output).is_empty(), "{}", stderr(&output));
    assert!(["141\n", "0\n"].contains(&stdout(&output).as_str()), "{}", stdout(&output));
    // Results are written before they are printed.
    let output = run("selvedge sim run tiny.toml --scheme ecmp --seeds 1 -o out >&-");
    assert_eq!(output.status.code(), Some(1));
    assert!(scratch.path().join("out/report.html").exists());
}

#[test]
fn what_a_file_says_does_not_reach_the_terminal_as_a_command() {
    let scratch = Scratch::new("escapes");
    let title = "title = \"a\\u001b[2Jb\\u009b1mc\\u202ed\"";
    scratch.file("odd.toml", &TINY.replacen("title = \"tiny\"", title, 1));
    let run = ["sim", "run", "odd.toml", "--scheme", "ecmp", "--seeds", "1"];
    let output = selvedge(scratch.path(), &run);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).starts_with("a\\u{1b}[2Jb\\u{9b}1mc\\u{202e}d\n"), "{}", stdout(&output));
    let output = selvedge(scratch.path(), &[&run[..], &["--json"]].concat());
    let text = stdout(&output);
    assert!(!text.contains(|c: char| c.is_control() && c != '\n' || c == '\u{202e}'), "{text}");
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["title"], "a\u{1b}[2Jb\u{9b}1mc\u{202e}d", "JSON says it all the same");
}
