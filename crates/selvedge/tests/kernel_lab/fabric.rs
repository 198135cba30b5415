//! The fabric itself: made, made again, looked at, left by a crash, removed.

use crate::rig::{ok, selvedge, Rig, PATIENCE, SELVEDGE};
use crate::stream::{Session, Transfer};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Names below a directory that belong to the lab.
fn leftovers(rig: &Rig) -> Vec<String> {
    let mut left = Vec::new();
    for dir in ["/run/netns", "/run/selvedge-lab", "/sys/fs/bpf"] {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap();
            if name.contains(rig.lab.name()) {
                left.push(format!("{dir}/{name}"));
            }
        }
    }
    left
}

/// Interfaces of this process's own namespace.
fn own_interfaces() -> usize {
    std::fs::read_dir("/sys/class/net").unwrap().count()
}

#[test]
fn up_is_idempotent_and_down_leaves_nothing() {
    let before = own_interfaces();
    let Some(rig) = Rig::up("a", &["--guests", "2"]) else { return };
    assert!(ok(rig.verb("up", &["--guests", "2"])).contains("was up already"));
    let other = rig.verb("up", &[]);
    assert_eq!(other.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&other.stderr).contains("is up with another shape"));
    let status: serde_json::Value = serde_json::from_str(&ok(rig.verb("status", &["--json"]))).unwrap();
    assert_eq!(status["state"], "up");
    assert_eq!(status["nodes"].as_array().unwrap().len(), 2 + 2 + 4 + 8);
    assert_eq!(status["links"].as_array().unwrap().len(), 8 + 4 + 8);
    assert!(status["links"].as_array().unwrap().iter().all(|link| link["up"] == true));
    assert_eq!(own_interfaces(), before, "nothing shows up outside");
    assert!(leftovers(&rig).len() > 16);
    ok(rig.verb("down", &[]));
    assert_eq!(leftovers(&rig), Vec::<String>::new());
    assert!(ok(rig.verb("down", &[])).contains("was not up"));
    let status = rig.verb("status", &[]);
    assert_eq!(status.status.code(), Some(1));
}

#[test]
fn exec_runs_in_the_node_and_passes_the_exit_code_on() {
    let Some(rig) = Rig::up("b", &["--leaves", "1", "--spines", "1"]) else { return };
    let addresses = ok(rig.verb("exec", &["guest2.1", "--", "ip", "-o", "-4", "address"]));
    assert!(addresses.contains("172.20.2.1/32"), "{addresses}");
    assert_eq!(rig.verb("exec", &["leaf1", "--", "sh", "-c", "exit 42"]).status.code(), Some(42));
    // `ip netns exec` would mount another /sys, without the bpffs.
    let mounts = ok(rig.verb("exec", &["host1", "--", "cat", "/proc/self/mounts"]));
    assert_eq!(mounts, std::fs::read_to_string("/proc/self/mounts").unwrap());
    let unknown = rig.verb("exec", &["host9", "--", "true"]);
    assert_eq!(unknown.status.code(), Some(2));
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(said.contains("no node \"host9\"") && said.lines().count() == 1, "{said}");
    let missing = rig.verb("exec", &["host1", "--", "/nonexistent/program"]);
    assert_eq!(missing.status.code(), Some(1));
}

#[test]
fn what_a_crash_left_goes() {
    let Some(rig) = Rig::up("c", &[]) else { return };
    // Half of it vanishes, somebody runs in the rest, and the record is cut short.
    for node in ["leaf1", "host2"] {
        ok(Command::new("ip").args(["netns", "del", rig.namespace(node).name()]).output().unwrap());
    }
    let mut sleeper = rig.spawn("host1", "sleep", &["600"]);
    std::fs::write(rig.lab.directory().join("lab.json"), "{\"complete\": tr").unwrap();
    std::fs::write(format!("/run/netns/sv-{}-stray", rig.lab.name()), "").unwrap();
    assert_eq!(rig.verb("status", &[]).status.code(), Some(1));
    ok(rig.verb("up", &[]));
    assert!(sleeper.child().wait().unwrap().code().is_none(), "ended by a signal");
    ok(rig.verb("status", &[]));
    // Killed between two steps: no record at all.
    std::fs::remove_dir_all(rig.lab.directory()).unwrap();
    ok(rig.verb("down", &[]));
    assert_eq!(leftovers(&rig), Vec::<String>::new());
}

/// However far it has come: a fabric so large that making it takes longer than the waits below.
#[test]
fn what_an_interrupted_up_made_goes() {
    let Some(rig) = Rig::up("i", &["--hosts", "1"]) else { return };
    ok(rig.verb("down", &[]));
    let arguments = ["lab", "kernel", "up", "--name", rig.lab.name(), "--leaves", "4", "--hosts", "4", "--guests", "4"];
    for signal in ["-INT", "-TERM"] {
        let mut up = Command::new(SELVEDGE);
        let up = up.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = (0..PATIENCE.as_millis()).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            leftovers(&rig).iter().any(|path| path.starts_with("/run/netns"))
        });
        assert!(begun, "no namespace");
        ok(Command::new("kill").args([signal, &up.id().to_string()]).output().unwrap());
        let ended = up.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!((ended.status.code(), said.lines().count()), (Some(130), 1), "{said}");
        assert!(said.contains("interrupted; what was made is removed"), "{said}");
        assert_eq!(leftovers(&rig), Vec::<String>::new());
    }
}

#[test]
fn routers_spread_flows_over_all_links_and_keep_each_on_one() {
    let Some(rig) = Rig::up("d", &["--hosts", "1"]) else { return };
    for address in ["172.20.2.1:7000", "[fd5e:7::2:1]:7001"] {
        let before = CABLES.map(|cable| transmitted(&rig, cable).0);
        let bytes = Transfer::start(&rig, "guest1.1", "guest2.1", address, 20_000_000).finish();
        let after = CABLES.map(|cable| transmitted(&rig, cable).0);
        let used = before.iter().zip(after).filter(|(old, new)| new - **old > bytes / 2).count();
        assert_eq!(used, 1, "one flow over {address}, one path");
    }
    let before = CABLES.map(|cable| transmitted(&rig, cable).1);
    let flows: Vec<Session> =
        (0..32).map(|i| Session::start(&rig, "guest1.1", "guest2.1", &format!("172.20.2.1:{}", 7100 + i))).collect();
    flows.iter().for_each(Session::echo);
    flows.into_iter().for_each(|flow| assert!(flow.finish() > 0));
    let after = CABLES.map(|cable| transmitted(&rig, cable).1);
    for (cable, (old, new)) in CABLES.iter().zip(before.iter().zip(after)) {
        assert!(new > old + 4, "32 flows, but none on {cable}");
    }
}

/// The first leaf's interfaces to the spines.
const CABLES: [&str; 4] = ["s1-1", "s1-2", "s2-1", "s2-2"];

/// Bytes and frames that an interface of leaf1 sent.
fn transmitted(rig: &Rig, interface: &str) -> (u64, u64) {
    let table = rig.run("leaf1", "cat /proc/self/net/dev");
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':')).unwrap();
    let column = |n: usize| line.split_whitespace().nth(n).unwrap().parse().unwrap();
    (column(8), column(9))
}

#[test]
fn guests_meet_over_the_kernels_vxlan_and_over_mtu_frames() {
    let Some(rig) = Rig::up("e", &["--overlay", "vxlan", "--wire", "mtu", "--hosts", "1"]) else { return };
    rig.run("guest1.1", "ping -c 3 -i 0.05 -W 5 172.20.2.1");
    rig.run("guest1.1", "ping -c 3 -i 0.05 -W 5 fd5e:7::2:1");
    let bytes = Transfer::start(&rig, "guest1.1", "guest2.1", "172.20.2.1:7000", 20_000_000).finish();
    assert!(bytes >= 20_000_000);
    // 20 MB in packets of the MTU, or in segments thirty times as large.
    let stats = rig.run("leaf1", "ip -s -j link show h1");
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    let packets = stats[0]["stats64"]["rx"]["packets"].as_u64().unwrap();
    assert!(packets > bytes / 1500, "{packets} packets");
}

#[test]
fn wrong_requests_are_one_line_and_change_nothing() {
    for (arguments, said) in [
        (vec!["up", "--name", "a-b"], "\"a-b\" is no name for a lab"),
        (vec!["up", "--name", "xq", "--leaves", "17"], "--leaves 17: give 1 to 16"),
        (vec!["up", "--name", "xq", "--mtu", "10"], "--mtu 10: give 1400 to 65000"),
        (vec!["down", "--name", "../x"], "is no name for a lab"),
    ] {
        let output = selvedge(&[&["lab", "kernel"], &arguments[..]].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(said) && text.lines().count() == 1, "{text}");
    }
    let output = selvedge(&["lab", "kernel", "exec", "--name", "nosuchlab", "host1", "--", "true"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("lab nosuchlab is not up"));
    assert!(!std::path::Path::new("/run/netns/sv-xq-leaf1").exists());
}
