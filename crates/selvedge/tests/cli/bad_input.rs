//! Bad input gets a line for each fault that names place, key and remedy.

use crate::{selvedge, stderr, Scratch, TINY};
use std::process::Command;

/// (what is added to or replaced in a good scenario, line at fault, key, part of the remedy). `~a~b` replaces a by b.
const CASES: &[(&str, u32, &str, &str)] = &[
    ("[swich]\nbuffer = \"1MB\"", 22, "swich", "did you mean `switch`?"),
    ("[sweeps]\nname = \"x\"", 22, "sweeps", "did you mean `sweep`?"),
    ("[[switch]]\nbuffer = \"1MB\"", 22, "switch", "write [switch], once"),
    ("~[topology]~[[topology]]", 6, "topology", "write [topology], once"),
    ("[switch]\npriorities = 99999999999999999999", 23, "switch.priorities", "give a whole number from"),
    ("[switch]\nbufer = \"1MB\"", 23, "switch.bufer", "did you mean `buffer`?"),
    ("[switch]\nbuffer = 12", 23, "switch.buffer", "write a string with its unit"),
    ("[switch]\nbuffer = \"12\"", 23, "switch.buffer", "the unit is missing"),
    ("[switch]\nbuffer = \"12 parsecs\"", 23, "switch.buffer", "units: B, KB"),
    ("[switch]\nbuffer = \"1B\"", 23, "switch.buffer", "give 1.538KB"),
    ("[switch]\nmultipath = \"letflow\"\nflowlet_gap = \"0s\"", 24, "switch.flowlet_gap", "give 1us"),
    (
        "~spines = 2\nhosts_per_leaf = 2\n~spines = 17\nhosts_per_leaf = 2\n[scheme.x]\nmultipath = \"conga\"\n",
        12,
        "scheme.x.multipath",
        "take letflow",
    ),
    ("[switch]\nalpha = -1.0", 23, "switch.alpha", "above 0"),
    ("[switch]\npriorities = 9", 23, "switch.priorities", "give 1 to 8"),
    ("[switch]\necn = {k = \"65KB\", kmin = \"1KB\"}", 23, "switch.ecn", "write {k = \"65KB\"}"),
    ("[switch]\necn = {kmin = \"9KB\", kmax = \"1KB\", pmax = 0.5}", 23, "switch.ecn.kmin", "exchange them"),
    ("[host]\nmtu = \"100B\"", 23, "host.mtu", "give 576B"),
    ("[host]\ncpu = \"fast\"", 23, "host.cpu", "known: off, presto-testbed"),
    ("[host.tcp]\ncongestion = \"cubik\"", 23, "host.tcp.congestion", "did you mean `cubic`?"),
    ("[host.tcp]\ncongestion = \"bbr\"", 23, "host.tcp.congestion", "use `selvedge lab run`"),
    ("[host.tcp]\nrto_min = \"2s\"\nrto_initial = \"1s\"", 24, "host.tcp.rto_initial", "give 2s"),
    ("[host.tcp]\ntsq_limit = \"none\"", 23, "host.tcp.tsq_limit", "or \"off\""),
    ("[record]\nsample_every = \"1ns\"", 23, "record.sample_every", "give 1us"),
    ("~kind = \"clos\"~kind = \"closs\"", 7, "topology.kind", "did you mean `clos`?"),
    (
        "~kind = \"clos\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2~kind = \"fat-tree\"\nk = 4\nleaves = 2",
        9,
        "topology.leaves",
        "remove it",
    ),
    (
        "~kind = \"clos\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2~kind = \"fat-tree\"\nk = 4\noversubscription = 1.7",
        9,
        "topology.oversubscription",
        "give hosts_per_edge = 3, which is 1.5:1",
    ),
    (
        "~kind = \"clos\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2~kind = \"fat-tree\"\nk = 4\nhosts_per_edge = 4\noversubscription = 2.0",
        10,
        "topology.oversubscription",
        "keep one of them",
    ),
    (
        "~kind = \"clos\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2~kind = \"fat-tree\"\nk = 4\nhosts_per_edge = 0",
        9,
        "topology.hosts_per_edge",
        "give at least 1",
    ),
    (
        "~kind = \"clos\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2~kind = \"fat-tree\"\nk = 4\nhosts_per_leaf = 2",
        9,
        "topology.hosts_per_leaf",
        "hosts_per_edge",
    ),
    ("~leaves = 2~leaves = 0", 8, "topology.leaves", "give at least 1"),
    ("~leaves = 2~leaves = -2", 8, "topology.leaves", "from 0 to 4294967295"),
    ("~leaves = 2~leaves = 4000000000", 8, "topology.leaves", "lower leaves"),
    ("~hosts_per_leaf = 2~hosts_per_leaf = 1000000000", 10, "topology.hosts_per_leaf", "lower leaves, spines, parallel and"),
    (
        "~kind = \"clos\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2~kind = \"fat-tree\"\nk = 4\nhosts_per_edge = 1000000000",
        9,
        "topology.hosts_per_edge",
        "lower k and hosts_per_edge",
    ),
    ("~duration = \"3ms\"~duration = 3", 2, "duration", "such as \"3us\""),
    ("~duration = \"3ms\"~duration = \"0s\"", 2, "duration", "such as \"1s\""),
    ("~duration = \"3ms\"\n~", 0, "duration", "add `duration"),
    ("~warmup = \"1ms\"~warmup = \"3ms\"", 3, "warmup", "shorter"),
    ("~seeds = \"1..2\"~seeds = \"2..1\"", 5, "seeds", "write \"1..5\""),
    ("~seeds = \"1..2\"~seeds = 1.5", 5, "seeds", "1..5"),
    ("~pattern = \"stride\"~pattern = \"strided\"", 13, "workload.elephants.pattern", "did you mean `stride`?"),
    ("~k = 2\n[[~[[", 11, "workload.elephants.k", "add it"),
    ("~k = 2\n[[~k = 4\n[[", 14, "workload.elephants.k", "choose k between 1 and 3"),
    ("~k = 2\n[[~k = 2\nk = 3\n[[", 15, "", "remove one"),
    ("~size = \"10KB\"~", 15, "workload.mice.size", "add it"),
    ("~every = \"200us\"~every = \"0us\"", 21, "workload.mice.every", "above 0s"),
    ("~name = \"mice\"~name = \"elephants\"", 16, "workload.elephants.name", "name of its own"),
    ("~name = \"mice\"~name = \"queue\"", 16, "workload.queue.name", "another name"),
    ("~name = \"mice\"~name = \"5 mice\"", 16, "name", "letters"),
    ("~every = \"200us\"~every = \"200us\"\nconnections = 2", 22, "workload.mice.connections", "persistent"),
    (
        "~every = \"200us\"~every = \"200us\"\nconnection = \"persistent\"\nconnections = 0",
        23,
        "workload.mice.connections",
        "give 1 to 1000",
    ),
    ("~to = \"stride\"~to = \"strid\"", 18, "workload.mice.to", "did you mean `stride`?"),
    (
        "[[workload]]\nname = \"p\"\npattern = \"poisson\"\ncdf = \"websearc\"\nload = 0.5",
        25,
        "workload.p.cdf",
        "\"websearch\"",
    ),
    ("[[workload]]\nname = \"p\"\npattern = \"poisson\"\ncdf = \"websearch\"\nload = -1", 26, "workload.p.load", "0.6"),
    ("[[workload]]\nname = \"p\"\npattern = \"poisson\"\ncdf = \"websearch\"\nload = nan", 26, "load NaN is not above 0", "0.6"),
    ("[[workload]]\nname = \"p\"\npattern = \"poisson\"\ncdf = \"websearch\"\nload = inf", 26, "load inf is not above 0", "0.6"),
    ("~name = \"mice\"~name = \"notify\"", 16, "workload.notify.name", "another name"),
    ("[[workload]]\nname = \"p\"\npattern = \"list\"\npath = \"none.csv\"", 25, "workload.p.path", "readable"),
    ("[[workload]]\nname = \"p\"\npattern = \"sequence\"", 22, "workload.p.size", "add it"),
    (
        "[[workload]]\nname = \"p\"\npattern = \"sequence\"\nsize = \"1KB\"\ncdf = \"websearch\"",
        26,
        "workload.p.cdf",
        "keep one",
    ),
    (
        "[[workload]]\nname = \"p\"\npattern = \"long\"\nto = \"next\"\nk = 4",
        26,
        "workload.p.k",
        "choose k between 1 and 3",
    ),
    (
        "[[workload]]\nname = \"p\"\npattern = \"long\"\nto = \"one\"\nsenders = 4",
        26,
        "workload.p.senders",
        "need 5 hosts",
    ),
    ("[[workload]]\nname = \"p\"\npattern = \"long\"\nto = \"one\"", 22, "workload.p.senders", "add it"),
    (
        "[[workload]]\nname = \"p\"\npattern = \"staircase\"\npairs = [[0, 1]]\nevery = \"1ms\"\nstagger = \"1ms\"",
        27,
        "workload.p.stagger",
        "remove it",
    ),
    ("[scheme.x.guests]\nmice = \"renot\"", 23, "scheme.x.guests.mice", "newreno"),
    ("[scheme.x.guests]\nmouse = \"newreno\"", 23, "scheme.x.guests.mouse", "elephants, mice"),
    ("[[failure]]\nat = \"1ms\"\nlink = \"leaf1-spine9\"", 24, "failure.0.link", "did you mean \"leaf1-spine"),
    ("[[failure]]\nat = \"1ms\"", 22, "failure.0.link", "add `link"),
    ("[scheme.x]\nbalance = \"flowcel\"", 23, "scheme.x.balance", "did you mean `flowcell`?"),
    ("[scheme.x]\nbalanse = \"flowcell\"", 23, "scheme.x.balanse", "did you mean `balance`?"),
    ("[scheme.x]\nthreshold = 64", 23, "scheme.x.threshold", "64KiB"),
    ("[scheme.x]\nreorder_timeout = \"soon\"", 23, "scheme.x.reorder_timeout", "or \"adaptive\""),
    ("[scheme.x.host.tcp]\nrtomin = \"1s\"", 23, "scheme.x.host.tcp.rtomin", "did you mean `rto_min`?"),
    ("[scheme.x.host]\nmtu = \"70KB\"", 23, "scheme.x.host.mtu", "give 576B"),
    ("[scheme.x]\nswitch = {buffer = 1}", 23, "scheme.x.switch.buffer", "unit"),
    ("~title = \"tiny\"~title = \"tiny\"\nschemes = [\"prest\"]", 2, "schemes", "did you mean `presto`?"),
    ("~title = \"tiny\"~title = \"tiny\"\nschemes = [\"presto\", \"presto\"]", 2, "schemes", "once"),
    ("~title = \"tiny\"~title = \"tiny", 1, "", "TOML"),
    ("~title = \"tiny\"~title = 5", 1, "title", "string"),
];

#[test]
fn each_error_names_place_key_and_remedy() {
    let scratch = Scratch::new("bad-input");
    let mut wrong = String::new();
    for &(change, line, key, remedy) in CASES {
        let text = match change.strip_prefix('~').and_then(|c| c.split_once('~')) {
            Some((from, to)) => {
                assert!(TINY.contains(from), "{from:?} is not in the scenario");
                TINY.replacen(from, to, 1)
            }
            None => format!("{TINY}{change}\n"),
        };
        scratch.file("bad.toml", &text);
        let output = selvedge(scratch.path(), &["sim", "run", "bad.toml"]);
        let message = stderr(&output);
        let place = if line == 0 { "selvedge: bad.toml: ".to_owned() } else { format!("selvedge: bad.toml:{line}: ") };
        let right = output.status.code() == Some(2)
            && output.stdout.is_empty()
            && message.lines().count() == 1
            && message.starts_with(&place)
            && message.contains(key)
            && message.contains(remedy);
        if !right {
            wrong += &format!("{change}\n  expected {place}... {key} ... {remedy}\n  got      {message}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Also those of schemes that are not chosen.
#[test]
fn all_errors_of_a_file_are_told_at_once() {
    let scratch = Scratch::new("all-errors");
    let lines = |text: String| {
        scratch.file("bad.toml", &text);
        let output = selvedge(scratch.path(), &["sim", "run", "bad.toml", "--scheme", "ecmp"]);
        assert_eq!(output.status.code(), Some(2));
        let message = stderr(&output);
        let mut lines: Vec<u32> = message
            .lines()
            .map(|l| l.trim_start_matches("selvedge: ").split(':').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0))
            .collect();
        lines.sort_unstable();
        (lines, message)
    };
    let wrong = "[switch]\nbufer = \"1MB\"\n[host]\nmtu = 1500\n[scheme.x]\nthreshold = 64\n";
    let (found, message) = lines(format!("{}{wrong}", TINY.replacen("\"3ms\"", "3", 1)));
    assert_eq!(found, [2, 23, 25, 27], "{message}");
    // What cannot be read hides no value that is wrong by itself, wherever it stands.
    let both = "[switch]\nbufer = \"1MB\"\npriorities = 9\n[host]\nmtu = \"1B\"\nrx_ring = 0\n\
                [scheme.x]\nreorder_alpha = 0\nthreshold = \"0B\"\nflowlet_gap = \"5s\"\n[scheme.x.limiter]\nalpha = 2.0\nk = \"2GB\"\n";
    let (found, message) = lines(format!("{TINY}{both}"));
    assert_eq!(found, [23, 24, 26, 27, 29, 30, 31, 33, 34], "{message}");
    let (found, message) = lines(format!("{}{both}", TINY.replacen("duration = \"3ms\"\n", "", 1)));
    assert_eq!(found, [0, 22, 23, 25, 26, 28, 29, 30, 32, 33], "{message}");
    let (found, message) = lines(TINY.replacen("\"clos\"", "\"fat-tree\"", 1));
    assert_eq!(found, [6, 8, 9, 10], "{message}");
    let modes = "[mode.full]\nduraton = \"1s\"\n[mode.paper]\nhost.mtu = \"1B\"\n";
    let (found, message) = lines(format!("{}{modes}", TINY.replacen("every = \"200us\"", "every = \"0us\"", 1)));
    assert_eq!(found, [21, 23, 25], "{message}");
    let meaning = "[host]\nmtu = \"100B\"\n[scheme.x]\nflowlet_gap = \"1us\"\n[scheme.y.host]\nmtu = \"70KB\"\n";
    let (found, message) = lines(format!("{TINY}{meaning}"));
    assert_eq!(found, [23, 25, 27], "{message}");
    let (found, message) =
        lines(TINY.replacen("\"1ms\"", "\"9ms\"", 1).replacen("every = \"200us\"", "every = \"0us\"", 1));
    assert_eq!(found, [3, 21], "{message}");
}

#[test]
fn an_override_is_as_strict_and_named_itself() {
    let scratch = Scratch::new("overrides");
    scratch.file("tiny.toml", TINY);
    for (set, remedy) in [
        ("switch.bufer=4MB", "did you mean `buffer`?"),
        ("switch.buffer=4", "unit"),
        ("switch.buffer=4 MBit", "units:"),
        ("workload.mice.every=0s", "above 0s"),
        ("workload.mouse.every=1ms", "elephants, mice"),
        ("workload.elephants.k=4", "choose k"),
        ("topology.leaves=0", "at least 1"),
        ("scheme.presto.receiver=stok", "did you mean `stock`?"),
        ("scheme.presto.host.tcp.rto_min=1h", "units:"),
        ("duration.x=1", "shorten"),
        ("duration", "key=value"),
        ("=1", "dotted path"),
        ("a..b=1", "dotted path"),
    ] {
        let output = selvedge(scratch.path(), &["sim", "run", "tiny.toml", "--set", set]);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{set}: {message}");
        assert!(message.starts_with(&format!("selvedge: --set {set}: ")), "{set}: {message}");
        assert!(message.contains(remedy), "{set}: expected {remedy:?}: {message}");
    }
}

#[test]
fn what_the_command_line_names_must_exist() {
    let scratch = Scratch::new("command-line");
    scratch.file("tiny.toml", TINY);
    for (arguments, code, remedy) in [
        (&["sim", "run", "none.toml"][..], 2, "give the path"),
        (&["sim", "run", "tiny.toml", "--scheme", "prest"], 2, "did you mean `presto`?"),
        (&["sim", "run", "tiny.toml", "--seeds", "x"], 2, "1..5"),
        (&["sim", "run", "tiny.toml", "--capture", "leaf1-spine9", "-o", "out"], 2, "did you mean \"leaf1-spine"),
        (&["sim", "run", "tiny.toml", "-o", "tiny.toml"], 2, "another directory"),
        (&["sim", "run", "tiny.toml", "--threads", "0"], 2, "1 to 1024"),
        (&["bench", "sim", "--hosts", "17"], 2, "54"),
        (&["bench", "sim", "--scheme", "prest"], 2, "did you mean `presto`?"),
        (&["bench", "lab", "--duration", "0s"], 2, "nothing is measured in no time"),
        (&["repro", "presto/fig15-strid"], 2, "did you mean presto/fig15-stride?"),
        (&["repro", "tiny.toml"], 2, "selvedge sim run"),
    ] {
        let output = selvedge(scratch.path(), arguments);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        assert!(message.contains(remedy), "{arguments:?}: expected {remedy:?}: {message}");
        assert_eq!(scratch.names(), ["tiny.toml"], "{arguments:?} leaves nothing behind");
    }
}

#[test]
fn files_without_an_end_are_not_read_to_it() {
    let scratch = Scratch::new("endless");
    scratch.file("tiny.toml", TINY);
    let workload = |keys: &str| format!("{TINY}[[workload]]\nname = \"x\"\n{keys}\n");
    scratch.file("cdf.toml", &workload("pattern = \"poisson\"\ncdf = \"/dev/zero\"\nload = 0.5"));
    scratch.file("list.toml", &workload("pattern = \"list\"\npath = \"/dev/zero\""));
    scratch.file("fabric.toml", "[topology]\nkind = \"file\"\npath = \"/dev/zero\"\n");
    for (arguments, place) in [
        (&["sim", "run", "/dev/zero"][..], "/dev/zero: "),
        (&["sim", "run", "cdf.toml"], "cdf.toml:25: workload.x.cdf: "),
        (&["sim", "run", "list.toml"], "list.toml:25: workload.x.path: "),
        (&["topo", "show", "fabric.toml"], "fabric.toml:3: topology.path: "),
        (&["topo", "show", "/dev/zero"], "/dev/zero: "),
        (&["lab", "up", "/dev/zero"], "/dev/zero: "),
        (&["agent", "check", "--config", "/dev/zero"], "/dev/zero: "),
        (&["controller", "run", "--config", "/dev/zero"], "/dev/zero: "),
    ] {
        let output = selvedge(scratch.path(), arguments);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.starts_with(&format!("selvedge: {place}")), "{arguments:?}: {message}");
        assert!(message.contains("longer than") || message.contains("no regular file"), "{arguments:?}: {message}");
        assert!(message.contains("; "), "{arguments:?} has a remedy: {message}");
    }
}

#[test]
fn a_lab_that_may_not_be_made_leaves_no_directory() {
    let scratch = Scratch::new("no-rights");
    let selvedge = env!("CARGO_BIN_EXE_selvedge");
    // Without any right, whoever runs this.
    let run = "if [ $(id -u) = 0 ]; then exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"; else exec \"$@\"; fi";
    for verb in [&["up", "--topo", "clos"][..], &["down"], &["status"]] {
        let output = Command::new("sh")
            .args(["-c", run, "sh", selvedge, "lab"])
            .args(verb)
            .env("SELVEDGE_RUN_DIR", scratch.path().join("run"))
            .output()
            .unwrap();
        if verb[0] == "up" {
            assert!(stderr(&output).contains("run as root, or within `unshare -Urn`"), "{}", stderr(&output));
        }
        assert!(scratch.names().is_empty(), "{verb:?}: {:?}", scratch.names());
    }
}

#[test]
fn what_no_memory_holds_is_refused_before_it_is_tried() {
    let scratch = Scratch::new("memory");
    scratch.file("one.cdf", "1 1\n");
    let workload = |keys: &str| format!("{TINY}[[workload]]\nname = \"x\"\n{keys}\n");
    scratch.file("cdf.toml", &workload("pattern = \"poisson\"\ncdf = \"one.cdf\"\nload = 0.5"));
    scratch.file("tiny.toml", TINY);
    scratch.file("list.toml", &workload("pattern = \"list\"\npath = \"flows.csv\""));
    scratch.file("flows.csv", &format!("start,src,dst,size\n{}", "0s,0,1,1KB\n".repeat(200_000)));
    for (file, sets, place, key, remedy) in [
        ("list.toml", &[][..], "list.toml:25: ", "workload.x.path: ", "fewer be open"),
        ("cdf.toml", &["duration=2ms"][..], "cdf.toml:26: ", "workload.x.load: ", "larger flows"),
        (
            "tiny.toml",
            &["topology.hosts_per_leaf=500000"],
            "--set topology.hosts_per_leaf=500000: ",
            "topology.hosts_per_leaf: ",
            "smaller fabric",
        ),
        (
            "tiny.toml",
            &["workload.mice.every=10ns"],
            "--set workload.mice.every=10ns: ",
            "workload.mice.every: ",
            "longer time",
        ),
        (
            "tiny.toml",
            &["topology.parallel=1000000"],
            "--set topology.parallel=1000000: ",
            "topology.parallel: ",
            "lower",
        ),
        (
            "tiny.toml",
            &["topology.parallel=5000"],
            "--set topology.parallel=5000: ",
            "topology.parallel: ",
            "at most 4096",
        ),
    ] {
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
        let output = selvedge(scratch.path(), &[&["sim", "run", file, "--memory", "500MB"], &sets[..]].concat());
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{file} {sets:?}: {message}");
        assert!(message.starts_with(&format!("selvedge: {place}{key}")), "{file} {sets:?}: {message}");
        assert!(message.contains(remedy), "{file} {sets:?}: {message}");
    }
    // Enough for what fits.
    let fits = ["sim", "run", "tiny.toml", "--memory", "50MB", "--scheme", "ecmp"];
    assert!(selvedge(scratch.path(), &fits).status.success());
}

#[test]
fn a_scheme_that_weighs_paths_itself_takes_no_controller() {
    let scratch = Scratch::new("weighs");
    scratch.file("x.toml", &format!("{TINY}[scheme.x]\nbalance = \"clove\"\ncontroller = \"1ms\"\n"));
    let message = stderr(&selvedge(scratch.path(), &["sim", "run", "x.toml"]));
    assert!(message.contains("x.toml:") && message.contains("scheme.x.controller: clove keeps"), "{message}");
}

/// The first mistake of a flow list is told by the list's own line, and a list that would run nothing is one.
#[test]
fn a_flow_list_is_told_by_its_own_lines() {
    let scratch = Scratch::new("flow-list");
    let list = "[[workload]]\nname = \"l\"\npattern = \"list\"\npath = \"f.csv\"\n";
    let (own, _) = TINY.split_once("[[workload]]").unwrap();
    scratch.file("s.toml", &format!("{own}{list}"));
    let run = |flows: &str| {
        scratch.file("f.csv", &format!("start,src,dst,size\n{flows}"));
        selvedge(scratch.path(), &["sim", "run", "s.toml", "--scheme", "ecmp", "--seeds", "1"])
    };
    for (flows, place, remedy) in [
        ("0s,0,1,1KB\n0s,0,9,1KB\n", "f.csv:3: host 9 does not exist", "hosts are 0 to 3"),
        ("5s,0,1,1KB\n3ms,1,2,1KB\n", "f.csv:3: the first flow would start at 3ms", "raise `duration`"),
        ("", "f.csv: it has no flows", "name at least one"),
    ] {
        let output = run(flows);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("workload.l.path: ") && said.contains(place) && said.contains(remedy), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let output = run("2ms,0,1,1KB\n5s,0,1,1KB\n");
    assert!(output.status.success(), "{}", stderr(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("l: 1 of the list's 2 flows would start at its end or later"), "{said}");
}
