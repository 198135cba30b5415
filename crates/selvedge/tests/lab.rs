//! The lab's verbs, as a user meets them. Needs root, /dev/net/tun, ip and ping; skips with a printed reason without.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

/// A directory for labs of this test alone; at its end they are down.
struct Labs(tempfile::TempDir);

impl Labs {
    fn new() -> Labs {
        Labs(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.env("SELVEDGE_RUN_DIR", self.path()).current_dir(self.path()).args(arguments.split_whitespace());
        command
    }
    fn run(&self, arguments: &str) -> Output {
        self.command(arguments).output().unwrap()
    }
    fn ok(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
    /// What it says when it fails, and its status.
    fn fails(&self, arguments: &str) -> (String, i32) {
        let output = self.run(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{arguments} succeeded");
        assert_eq!(text.trim_end().lines().count(), 1, "one line: {text}");
        (text, output.status.code().unwrap())
    }

    /// Two hosts; false, with a printed reason, where there can be no lab.
    fn up(&self, name: &str) -> bool {
        let output = self.run(&format!("lab up --topo dumbbell,hosts=2,rate=50Mbps,rtt=6ms --name {name}"));
        if !output.status.success() {
            println!("skipped: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        output.status.success()
    }
    fn record(&self, name: &str) -> serde_json::Value {
        let text = std::fs::read(self.path().join("lab").join(name).join("lab.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    }
    fn status(&self, name: &str) -> serde_json::Value {
        let output = self.run(&format!("lab status --json --name {name}"));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Labs {
    fn drop(&mut self) {
        self.run("lab down --all");
    }
}

/// What has ended may wait for a while until somebody takes note.
fn alive(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z') && !rest.starts_with('X'))
}

/// Needs no lab: what this machine cannot carry is told by the simulation, before one begins.
#[test]
fn a_comparison_that_no_machine_can_carry_is_refused_beforehand() {
    let labs = Labs::new();
    // So long that its simulation tells how fast any machine is.
    let text =
        "title = \"fast\"\nduration = \"400ms\"\n[topology]\nkind = \"dumbbell\"\npairs = 4\nrate = \"100Gbps\"\n\
        [[workload]]\nname = \"long\"\npattern = \"long\"\npairs = [[0, 4], [1, 5], [2, 6], [3, 7]]\n";
    std::fs::write(labs.path().join("fast.toml"), text).unwrap();
    let (said, _) = labs.fails("lab run fast.toml --scheme ecmp --seeds 1 --compare");
    assert!(said.contains("million packet-hops a second") && said.contains("add --scale "), "{said}");
}

#[test]
fn a_lab_comes_up_changes_and_goes_down() {
    let labs = Labs::new();
    if !labs.up("one") {
        return;
    }
    let ping = labs.ok("lab exec --name one h0 -- ping -c 3 -i 0.05 h1");
    assert!(ping.contains("10.0.0.2") && ping.contains("3 received"), "{ping}");
    labs.ok("lab set --name one left-right delay=20ms");
    let slow = labs.ok("lab exec --name one h0 -- ping -c 1 host1");
    let time: f64 = slow.split("time=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(time > 40.0, "{slow}");
    labs.ok("lab fail --name one left-right");
    assert!(!labs.run("lab exec --name one h0 -- ping -c 1 -W 1 h1").status.success());
    let status = labs.status("one");
    let links = status["status"]["links"].as_array().unwrap();
    let down: Vec<&str> = links.iter().filter(|l| l["up"] == false).map(|l| l["port"].as_str().unwrap()).collect();
    assert_eq!(down, ["left-right", "right-left"]);
    labs.ok("lab heal --name one left-right");
    labs.ok("lab set --name one left-right delay=1ms rate=10Mbps");
    std::thread::sleep(Duration::from_millis(50));
    labs.ok("lab exec --name one h0 -- ping -c 1 h1");

    let mut pings = labs.command("lab exec --name one h0 -- ping -q -c 100 -i 0.02 h1").spawn().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let top = labs.ok("lab top --name one --count 1 --every 200ms");
    assert!(top.contains("left-right") && top.contains("icmp 10.0.0.1 > 10.0.0.2"), "{top}");
    let said = labs.ok("lab capture --name one h0-left -o x.pcapng --packets 5 --for 5s");
    pings.wait().unwrap();
    assert!(said.starts_with("5 packets"), "{said}");
    let file = std::fs::read(labs.path().join("x.pcapng")).unwrap();
    assert_eq!(file[..4], [0x0a, 0x0d, 0x0d, 0x0a]);

    let pid = labs.record("one")["pid"].as_u64().unwrap();
    labs.ok("lab down --name one");
    assert!(!alive(pid));
    assert!(!labs.path().join("lab/one").exists());
}

#[test]
fn two_labs_do_not_meet_and_mistakes_are_one_line() {
    let labs = Labs::new();
    if !labs.up("a") {
        return;
    }
    assert!(labs.up("b"));
    labs.ok("lab exec --name a h0 -- ping -c 1 h1");
    assert_eq!(labs.status("b")["status"]["hosts"][0]["tx_segments"], 0);
    for (arguments, says, code) in [
        ("lab up --topo dumbbell,hosts=2 --name a", "up already", 2),
        ("lab status --name c", "there are a, b", 2),
        ("lab exec --name a h9 -- true", "h0 to h1", 2),
        ("lab fail --name a left-rigth", "did you mean \"left-right\"", 1),
        ("lab up --topo dumbbell,hosts=3 --name d", "pairs", 2),
        ("lab up nowhere.toml --name d", "nowhere.toml", 2),
        ("lab down --name d", "not up", 2),
    ] {
        let (text, status) = labs.fails(arguments);
        assert!(text.contains(says) && status == code, "{arguments}: {status}, {text}");
    }
    labs.ok("lab down --all");
    assert_eq!(std::fs::read_dir(labs.path().join("lab")).unwrap().count(), 0);
}

#[test]
fn a_killed_lab_is_taken_down() {
    let labs = Labs::new();
    if !labs.up("gone") {
        return;
    }
    let mut program = labs.command("lab exec --name gone h1 -- sleep 600").spawn().unwrap();
    let record = labs.record("gone");
    let inode = record["hosts"][1]["inode"].as_u64().unwrap();
    let namespace = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let inside = |pid| namespace(pid).is_some_and(|l| l.to_string_lossy() == format!("net:[{inode}]"));
    for _ in 0..200 {
        if inside(program.id()) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(inside(program.id()));
    let daemon = record["pid"].as_u64().unwrap();
    assert!(Command::new("kill").args(["-9", &daemon.to_string()]).status().unwrap().success());
    for _ in 0..200 {
        if labs.run("lab status --name gone").status.code() == Some(1) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let (text, _) = labs.fails("lab status --name gone");
    assert!(text.contains("lab down"), "{text}");
    let said = labs.ok("lab down --name gone");
    assert!(said.contains("1 of its programs"), "{said}");
    assert!(!program.wait().unwrap().success(), "the program was ended");
    assert!(!labs.path().join("lab/gone").exists());
}

/// A damaged record, a missing one, and one without a process: the lab goes down with all that belongs to it.
#[test]
fn a_lab_whose_record_is_damaged_goes_down_all_the_same() {
    let labs = Labs::new();
    for damaged in [true, false] {
        if !labs.up("torn") {
            return;
        }
        let pid = labs.record("torn")["pid"].as_u64().unwrap();
        let record = labs.path().join("lab/torn/lab.json");
        match damaged {
            true => std::fs::write(&record, "garbage").unwrap(),
            false => std::fs::remove_file(&record).unwrap(),
        }
        let (said, _) = labs.fails("lab status --name torn");
        assert!(said.contains(&record.display().to_string()) && said.contains("lab down --name torn"), "{said}");
        let (said, code) = labs.fails("lab up --topo dumbbell,hosts=2,rate=50Mbps,rtt=6ms --name torn");
        assert!(said.contains("up already") && code == 2, "{said}");
        let said = labs.ok(if damaged { "lab down --name torn" } else { "lab down --all" });
        assert!(said.contains("damaged or missing"), "{said}");
        assert!(!alive(pid) && !labs.path().join("lab/torn").exists());
    }

    assert!(labs.up("torn"));
    let mut program = labs.command("lab exec --name torn h1 -- sleep 600").spawn().unwrap();
    for _ in 0..200 {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", program.id())).unwrap();
        if name.trim() == "sleep" {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = labs.record("torn")["pid"].as_u64().unwrap();
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    std::fs::write(labs.path().join("lab/torn/lab.json"), "garbage").unwrap();
    while alive(pid) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let said = labs.ok("lab down --name torn");
    assert!(said.contains("1 of its programs"), "{said}");
    assert!(!program.wait().unwrap().success(), "the program was ended");

    std::fs::create_dir(labs.path().join("lab/torn")).unwrap();
    assert!(labs.ok("lab down --name torn").contains("never come up"));
}

#[test]
fn of_two_labs_of_one_name_one_comes_up() {
    let labs = Labs::new();
    if !labs.up("probe") {
        return;
    }
    labs.ok("lab down --name probe");
    let up = || labs.command("lab up --topo dumbbell,hosts=2,rate=50Mbps,rtt=6ms --name twin");
    let pipes = |mut command: Command| {
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
    };
    let [one, other] = [up(), up()].map(pipes).map(|child| child.wait_with_output().unwrap());
    assert!(one.status.success() != other.status.success(), "{one:?}, {other:?}");
    let loser = if one.status.success() { &other } else { &one };
    let said = String::from_utf8_lossy(&loser.stderr);
    assert!(said.contains("up already") && loser.status.code() == Some(2), "{said}");
    labs.ok("lab exec --name twin h0 -- ping -c 1 h1");
    labs.ok("lab down --name twin");
}

#[test]
fn a_lab_that_goes_down_takes_all_its_programs_along() {
    let labs = Labs::new();
    if !labs.up("full") {
        return;
    }
    let inode = labs.record("full")["hosts"][0]["inode"].as_u64().unwrap();
    // Without an environment nothing tells whose it is but its namespace.
    let mut program = labs.command("lab exec --name full h0 -- env -i sleep 600").spawn().unwrap();
    let path = format!("/proc/{}", program.id());
    let begun = || {
        let namespace = std::fs::read_link(format!("{path}/ns/net")).unwrap_or_default();
        let bare = std::fs::read(format!("{path}/environ")).is_ok_and(|e| e.is_empty());
        bare && namespace.to_string_lossy() == format!("net:[{inode}]")
    };
    for _ in 0..500 {
        if begun() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(begun(), "the program runs in the host's network");
    labs.ok("lab down --name full");
    assert!(!program.wait().unwrap().success(), "it was ended");
}

#[test]
fn a_host_paces_to_its_link_as_that_changes() {
    let labs = Labs::new();
    if !labs.up("one") {
        return;
    }
    let paced = || labs.ok("lab exec --name one h0 -- tc class show dev eth0");
    if !paced().contains("htb") {
        println!("skipped: this kernel has no HTB");
        return;
    }
    for (rate, shown) in [("20Mbps", "rate 194"), ("80Mbps", "rate 779")] {
        let said = labs.ok(&format!("lab set --name one h0-left rate={rate}"));
        assert_eq!(said, format!("host0-left: {rate}, 1ms\n"));
        assert!(paced().contains(shown), "{rate}: {}", paced());
    }
}

#[test]
#[allow(clippy::disallowed_methods)] // times of packets are compared with it
fn captures_take_turns_and_may_go_to_a_pipe() {
    let labs = Labs::new();
    if !labs.up("one") {
        return;
    }
    let mut first = labs.command("lab capture --name one h1-right -o first --for 60s").spawn().unwrap();
    for _ in 0..500 {
        if labs.path().join("first").exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let (text, _) = labs.fails("lab capture --name one h0-left -o second --for 1s");
    assert!(text.contains("h1-right"), "{text}");
    first.kill().unwrap();
    first.wait().unwrap();
    // The lab finds out that nobody reads any more.
    let capture = || labs.run("lab capture --name one h0-left -o - --packets 2 --for 60s");
    let mut pings = labs.command("lab exec --name one h0 -- ping -q -i 0.02 h1").spawn().unwrap();
    let mut output = capture();
    for _ in 0..500 {
        if output.status.success() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
        output = capture();
    }
    pings.kill().unwrap();
    pings.wait().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = output.stdout;
    assert_eq!(file[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    // The first packet's block: type, length, interface, then the time in two halves. It is of our days.
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let mut at = 0;
    while word(at) != 6 {
        at += word(at + 4) as usize;
    }
    let ns = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    assert!(ns <= now && now - ns < 600_000_000_000, "{ns}, and it is {now}");
}

#[test]
fn guests_may_have_what_only_real_kernels_have() {
    let labs = Labs::new();
    if !labs.up("probe") {
        return;
    }
    std::fs::write(labs.path().join("s.toml"), SCENARIO).unwrap();
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    for law in ["reno", "bbr"] {
        if !known.split_whitespace().any(|k| k == law) {
            println!("not tried: this kernel has no {law}");
            continue;
        }
        let output = labs.run(&format!("lab run s.toml --json --set host.tcp.congestion={law}"));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let metrics: serde_json::Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {text}"));
        let goodput = metrics["schemes"]["ecmp"]["metrics"]["all.goodput_gbps"].as_f64().unwrap();
        // Far less than without the link. A lab that was late delivers what waited meanwhile, so it may be above 40 Mbps.
        assert!(goodput > 0.0 && goodput < 0.4, "{law}: {goodput} over a link of 40 Mbps");
    }
    for arguments in ["sim run s.toml", "lab run s.toml --compare"] {
        let (text, _) = labs.fails(&format!("{arguments} --set host.tcp.congestion=bbr"));
        assert!(text.contains("no model of"), "{arguments}: {text}");
    }
}

const SCENARIO: &str = r#"title = "two flows"
duration = "1200ms"
warmup = "400ms"
schemes = ["ecmp"]
[topology]
kind = "dumbbell"
pairs = 2
rate = "40Mbps"
delay = "1ms"
[record]
sample_every = "10ms"
[[workload]]
name = "bulk"
pattern = "long"
pairs = [[0, 2], [1, 3]]
"#;

#[test]
fn a_scenario_runs_with_the_columns_of_the_simulator() {
    let labs = Labs::new();
    if !labs.up("probe") {
        return;
    }
    std::fs::write(labs.path().join("s.toml"), SCENARIO).unwrap();
    // Status 1 is an overloaded machine, which is not what is tested here.
    let output = labs.run("lab run s.toml -o out --set host.tcp.congestion=newreno");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("lateness p50"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    labs.ok("sim run s.toml -o sim --set host.tcp.congestion=newreno");
    for file in ["flows.csv", "ports.csv", "metrics.csv"] {
        let head = |dir: &str| {
            let text = std::fs::read_to_string(labs.path().join(dir).join(file)).unwrap();
            text.lines().next().unwrap().to_owned()
        };
        assert_eq!(head("out"), head("sim"), "{file}");
    }
    let metrics: serde_json::Value = read(&labs.path().join("out/metrics.json"));
    let goodput = metrics["schemes"]["ecmp"]["metrics"]["all.goodput_gbps"].as_f64().unwrap();
    assert!(goodput > 0.01 && goodput < 0.04, "{goodput} over a link of 40 Mbps");
    let lab: serde_json::Value = read(&labs.path().join("out/lab.json"));
    assert_eq!(lab[0]["seed"], 1);
    assert!(lab[0]["lateness_p99_us"].as_f64().unwrap() > 0.0);
    let report = std::fs::read_to_string(labs.path().join("out/report.html")).unwrap();
    assert!(report.contains("lateness p50"));
}

fn read(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_comparison_writes_both_and_their_differences() {
    let labs = Labs::new();
    if !labs.up("probe") {
        return;
    }
    std::fs::write(labs.path().join("s.toml"), SCENARIO).unwrap();
    // Whether the two agree on a loaded machine is not tested here.
    let output = labs.run("lab run s.toml --compare -o out");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("bulk.goodput_gbps") && text.contains("lateness p50"), "{text}");
    let agreement: serde_json::Value = read(&labs.path().join("out/agreement.json"));
    let of = |metric: &str| agreement.as_array().unwrap().iter().find(|c| c["metric"] == metric).cloned();
    let goodput = of("bulk.goodput_gbps").expect("goodput is compared");
    assert!(goodput["simulator"].as_f64().unwrap() > 0.03 && goodput["lab"].as_f64().unwrap() > 0.0, "{goodput}");
    // On a machine that did not keep up nothing is judged.
    let judged: serde_json::Value = read(&labs.path().join("out/lab.json"));
    let valid = judged.as_array().unwrap().iter().all(|run| run["valid"] == true);
    assert!(goodput["holds"].is_boolean() == valid && of("queue.mean_kb.max").is_some(), "{agreement} {judged}");
    assert!(valid || goodput["reason"].as_str().unwrap().contains("not valid"), "{goodput}");
    for file in ["flows.csv", "sim.flows.csv", "metrics.json", "sim.metrics.json", "lab.json"] {
        assert!(labs.path().join("out").join(file).exists(), "{file}");
    }
    let report = std::fs::read_to_string(labs.path().join("out/report.html")).unwrap();
    assert!(report.contains("Checks against the simulator") && report.contains("ecmp simulated"));
    // It knows its own results, and replaces them.
    let again = labs.run("lab run s.toml --compare -o out --force --json");
    let printed: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert!(printed["agreement"].is_array() && printed["simulator"]["schemes"]["ecmp"].is_object());
}

/// AC/DC over guests of the kernel: one of them ignores its window, another is of a kind that is not modelled.
const UNRULY: &str = r#"title = "unruly"
duration = "2s"
warmup = "500ms"
[topology]
kind = "dumbbell"
pairs = 2
rate = "100Mbps"
fabric_rate = "30Mbps"
delay = "1ms"
[switch]
buffer = "100KB"
ecn = { k = "20KB" }
[[workload]]
name = "honest"
pattern = "long"
pairs = [[0, 2]]
[[workload]]
name = "unruly"
pattern = "long"
pairs = [[1, 3]]
ignore_window = true
[scheme.policed]
congestion = { law = "dctcp" }
[scheme.bbr]
congestion = { law = "dctcp" }
guests = { honest = "bbr" }
"#;

#[test]
fn unruly_guests_are_policed_and_others_obey() {
    let labs = Labs::new();
    if !labs.up("probe") {
        return;
    }
    std::fs::write(labs.path().join("s.toml"), UNRULY).unwrap();
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let bbr = known.split_whitespace().any(|law| law == "bbr");
    let (schemes, schemes_text) =
        if bbr { (vec!["policed", "bbr"], "policed,bbr") } else { (vec!["policed"], "policed") };
    let output = labs.run(&format!("lab run s.toml --compare --scheme {schemes_text} -o out"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("ignore") {
        println!("skipped: {}", said.trim()); // a build or a kernel without the program
        return;
    }
    let metrics: serde_json::Value = read(&labs.path().join("out/metrics.json"));
    for scheme in schemes {
        let of = |name: &str| metrics["schemes"][scheme]["metrics"][name].as_f64().unwrap_or(0.0);
        assert!(of("congestion.policed_segments") > 0.0, "{scheme}: {metrics}");
        assert!(of("congestion.windows_lowered") > 0.0, "{scheme}: {metrics}");
    }
    let agreement: serde_json::Value = read(&labs.path().join("out/agreement.json"));
    let simulated = |scheme: &str| {
        let of_scheme: Vec<_> = agreement.as_array().unwrap().iter().filter(|c| c["scheme"] == scheme).collect();
        assert!(!of_scheme.is_empty() || !bbr, "{scheme}: {agreement}");
        of_scheme.iter().any(|c| c["simulator"].is_number())
    };
    assert!(simulated("policed") && !simulated("bbr"));
    // Without policing nothing is dropped, whatever the guest does.
    labs.run("lab run s.toml --scheme policed --set scheme.policed.congestion.police=false -o free");
    let metrics: serde_json::Value = read(&labs.path().join("free/metrics.json"));
    assert_eq!(metrics["schemes"]["policed"]["metrics"]["congestion.policed_segments"], 0.0);
}

/// Two guests of one host: TCP, and datagrams that offer three quarters of the link.
const GUESTS: &str = r#"title = "guests"
duration = "3s"
warmup = "1s"
schemes = ["none", "shares"]
[topology]
kind = "dumbbell"
pairs = 2
rate = "40Mbps"
delay = "1ms"
[switch]
buffer = "100KB"
ecn = { k = "20KB" }
[[workload]]
name = "bulk"
tenant = "a"
pattern = "long"
pairs = [[0, 2]]
[[workload]]
name = "flood"
tenant = "b"
pattern = "long"
pairs = [[0, 2]]
transport = "udp"
rate = "30Mbps"
[scheme.none]
[scheme.shares]
tenants = { hold = "delay", rtt = "6ms" }
"#;

#[test]
fn guests_of_a_host_share_its_uplink_and_may_send_datagrams() {
    let labs = Labs::new();
    if !labs.up("probe") {
        return;
    }
    std::fs::write(labs.path().join("s.toml"), GUESTS).unwrap();
    let measure = |attempt: u32| {
        let output = labs.run(&format!("lab run s.toml -o out{attempt}"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let metrics: serde_json::Value = read(&labs.path().join(format!("out{attempt}/metrics.json")));
        let of = |scheme: &str, name: &str| metrics["schemes"][scheme]["metrics"][name].as_f64().unwrap_or(0.0);
        let (free, held) = (of("none", "flood.goodput_gbps"), of("shares", "flood.goodput_gbps"));
        // Half of the uplink is 20 Mbps with headers. A single guest would have all of it.
        assert!(held > 0.0 && held < 0.02, "{free} {held}: {metrics} {said}");
        assert!(of("shares", "bulk.goodput_gbps") > 0.0, "{metrics}");
        println!("a flood's goodput: {free} Gbps alone, {held} in its share");
        free > 1.2 * held
    };
    // A machine that is late slows the flood that nothing holds, too.
    assert!((0..3).any(measure));
}

#[test]
fn hosts_may_use_dctcp() {
    let labs = Labs::new();
    if !labs.up("probe") {
        return;
    }
    let output = labs.run("lab up --topo dumbbell,hosts=2,rate=50Mbps,rtt=6ms,congestion=dctcp,ecn=20KB --name law");
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains("DCTCP") || text.contains("dctcp"), "{text}");
        println!("skipped: {}", text.trim());
        return;
    }
    let routes = labs.ok("lab exec --name law h0 -- ip route get h1");
    assert!(routes.contains("congctl"), "{routes}");
    assert!(routes.contains("dctcp"), "the hosts' law is not the kernel's default: {routes}");
    labs.ok("lab down --name law");
}

#[test]
fn without_privilege_there_is_one_line() {
    let labs = Labs::new();
    let root = Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout == b"0\n");
    if !root || Command::new("setpriv").arg("--version").output().is_err() {
        println!("skipped: only root can give privileges up, and with setpriv");
        return;
    }
    let program = env!("CARGO_BIN_EXE_selvedge");
    let output = Command::new("setpriv")
        .args(["--bounding-set", "-all", "--inh-caps", "-all", program, "lab", "up", "--topo", "dumbbell,hosts=2"])
        .env("SELVEDGE_RUN_DIR", labs.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(text.trim_end().lines().count() == 1 && text.contains("run as root"), "{text}");
}
