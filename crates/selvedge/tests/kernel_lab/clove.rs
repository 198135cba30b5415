//! Clove over routers of the kernel: what marks do to the weights of paths, and where flowlets then go.

use crate::discovery::{arrived, has_all, hops_by_name, wait_for, way, FABRIC};
use crate::filter::Filter;
use crate::rig::{skip, until, Rig};
use crate::stream::Transfer;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::Path;

const TO: &str = "172.20.2.1:7000";
const BYTES: u64 = 20_000_000;
const UP: [&str; 4] = ["spine1:l1-1", "spine1:l1-2", "spine2:l1-1", "spine2:l1-2"];
const POLICY: &str = "clove,flowlet_gap=300us,clove_relay=200us,clove_clear=50ms";

/// Of eight packets that are ECN-capable, one is marked.
const MARK: Filter =
    Filter { source: concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agent/mark.bpf.c"), object: "lab-mark.o" };

/// Not a test of its own: `scripts/kernels/test` calls it for machines that have no clang.
#[test]
#[ignore = "builds for another machine"]
fn objects_for_another_machine() {
    MARK.build_for_another_machine();
}

/// Marks what leaves here. `None`, with the reason printed, without clang.
fn mark(rig: &Rig, node: &str, interfaces: &[&str]) -> Option<()> {
    let object = rig.lab.directory().join("mark.o");
    if let Err(why) = MARK.put(&object) {
        skip(&why);
        return None;
    }
    for interface in interfaces {
        rig.run(node, &format!("tc qdisc add dev {interface} clsact"));
        let object = object.display();
        rig.run(
            node,
            &format!("tc filter add dev {interface} egress bpf direct-action object-file {object} section tc"),
        );
    }
    Some(())
}

/// What is known of the paths to host 2 by their labels: weight, marks.
fn known(way: &Json) -> BTreeMap<u16, (f64, u64)> {
    let entry = |path: &Json| {
        let label = path["label"].as_u64().unwrap() as u16;
        (label, (path["weight"].as_f64().unwrap(), path["marks"].as_u64().unwrap()))
    };
    way["known"].as_array().unwrap().iter().map(entry).collect()
}

#[test]
fn flowlets_leave_paths_whose_routers_mark() {
    if !Path::new("/proc/sys/net/ipv4/fib_multipath_hash_seed").exists() {
        return skip("before Linux 6.11 all namespaces hash with one seed: some paths do not exist");
    }
    let Some(rig) = Rig::up("c", &[FABRIC, &["--policy", POLICY]].concat()) else { return };
    for host in ["host1", "host2"] {
        let text = rig.configuration(host);
        rig.configure(host, &text.replacen("discovery = true\n", "discovery = true\npatience = \"500ms\"\n", 1));
    }
    let transfer = Transfer::start(&rig, "guest1.1", "guest2.1", TO, BYTES);
    wait_for(&rig, "all paths", has_all);
    let bytes = || UP.map(|interface| arrived(&rig, interface));
    let begin = bytes();
    until("every link is used", || bytes().iter().zip(begin).all(|(now, begin)| *now > begin + 100_000));
    let before = known(&way(&rig));
    assert!((before.values().map(|(weight, _)| weight).sum::<f64>() - 1.0).abs() < 1e-6, "{before:?}");
    assert!(before.values().all(|(_, marks)| *marks == 0), "nothing marks yet: {before:?}");
    if mark(&rig, "spine1", &["l2-1", "l2-2"]).is_none() {
        transfer.finish();
        return;
    }
    // Labels of the paths over each spine, as they are now.
    let over = |way: &Json, spine: &str| -> Vec<(f64, u64)> {
        let (names, known) = (hops_by_name(&rig, way), known(way));
        let through = names.iter().filter(|(_, hops)| hops.iter().any(|hop| hop.starts_with(spine)));
        through.filter_map(|(label, _)| known.get(label).copied()).collect()
    };
    let share = |paths: &[(f64, u64)]| paths.iter().map(|(weight, _)| weight).sum::<f64>();
    until("paths over spine 1 are left", || {
        let now = way(&rig);
        let (marked, free) = (over(&now, "spine1:"), over(&now, "spine2:"));
        marked.len() > 1 && marked.iter().all(|(_, marks)| *marks > 0) && share(&marked) < 0.15 && share(&free) > 0.8
    });
    assert!(over(&way(&rig), "spine2:").iter().all(|(_, marks)| *marks == 0), "{}", way(&rig));
    let begin = bytes();
    transfer.advance(3 * BYTES / 2);
    let used: Vec<u64> = bytes().iter().zip(begin).map(|(now, begin)| now - begin).collect();
    assert!(used[2] + used[3] > 2 * (used[0] + used[1]), "bytes over both links of either spine: {used:?}");
    // Only spine 1 is left: its marked paths are better than none.
    for link in ["s2-1", "s2-2"] {
        rig.run("leaf2", &format!("ip link set {link} down"));
    }
    let left = wait_for(&rig, "only spine 1", |paths| {
        paths.values().all(|hops| hops.len() == 3 && hops[1].starts_with("spine1:"))
    });
    assert!(left.len() > 1, "{left:?}");
    assert!(transfer.is_going_on());
    transfer.advance(BYTES / 20);
    transfer.finish();
    let counters = rig.ctl("host1", "counters");
    let count = |name: &str| {
        let found = counters.as_array().unwrap().iter().find(|counter| counter["name"] == name);
        found.unwrap()["value"].as_u64().unwrap()
    };
    assert!(count("feedback") > 0 && count("drop_ecn_segments") == 0, "{counters}");
}
