//! Real traffic between guests of two hosts, in network namespaces. Root only; says why where it is skipped.
#![cfg(feature = "kernel")]

mod fabric;

use fabric::peer::{sustained, transfer, SUSTAINED};
use fabric::{in_namespace, Fabric};
use live::state::{Config, Counter, Counters, BALANCE_ECMP, BALANCE_FLOWCELL, VERSION_1, VERSION_PLAIN};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::time::Duration;

const LABELS: [u16; 4] = [50_001, 50_002, 50_003, 50_004];

/// Not a test of its own: see `fabric::peer`.
#[test]
fn peer_process() {
    fabric::peer::run();
}

/// `None`, with the reason printed, where the tests cannot run.
fn fabric(name: &str) -> Option<Fabric> {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return None;
    }
    Some(Fabric::new(name))
}

fn flowcells(cell_bytes: u32) -> Config {
    Config { balance: BALANCE_FLOWCELL, cell_bytes, ..Config::default() }
}

fn counters(fabric: &Fabric, i: usize) -> Counters {
    fabric.edges[i].edge.counters().unwrap()
}

/// Mean size of the segments that guest 1 got, bytes.
fn mean_received(fabric: &Fabric) -> u64 {
    let counters = counters(fabric, 1);
    counters.get(Counter::InBytes) / counters.get(Counter::InSegments).max(1)
}

#[test]
fn tcp_and_udp_cross_the_overlay_in_whole_segments_on_several_labels() {
    let Some(mut fabric) = fabric("a") else { return };
    fabric.add_edges(&flowcells(65_536), &LABELS);
    transfer(&fabric, "tcp", "10.7.0.2:9000", 100_000_000);
    transfer(&fabric, "udp", "10.7.0.2:9001", 50);
    transfer(&fabric, "tcp", "[fd07::2]:9002", 20_000_000);
    transfer(&fabric, "udp", "[fd07::2]:9003", 50);
    transfer(&fabric, "fragments", "10.7.0.2:9004", 5);
    let sent = counters(&fabric, 0);
    assert!(sent.get(Counter::Flowcells) > 1000, "{sent:?}");
    assert!(sent.get(Counter::FlowsBegun) >= 4, "one more for each attempt before the server was there");
    assert!(sent.get(Counter::Untracked) >= 30, "fragments, both ways");
    assert!(mean_received(&fabric) > 20_000, "GSO frames stay whole: {}", mean_received(&fabric));
    for i in 0..2 {
        let counters = counters(&fabric, i);
        assert_eq!(counters.get(Counter::DropError), 0);
        assert_eq!(counters.get(Counter::UnknownPeer), 0);
    }
    let flows = fabric.edges[0].edge.flows().unwrap();
    assert!(flows.iter().any(|(_, slot)| slot.out_bytes >= 100_000_000 && slot.flowcell.cell > 1000));
}

#[test]
fn outer_ipv6_carries_both_families() {
    let Some(mut fabric) = fabric("b") else { return };
    for i in 0..2 {
        fabric.add_edge(i, &flowcells(65_536), &LABELS, VERSION_1, true, 1024);
    }
    transfer(&fabric, "tcp", "10.7.0.2:9000", 30_000_000);
    transfer(&fabric, "tcp", "[fd07::2]:9002", 30_000_000);
    assert!(mean_received(&fabric) > 20_000, "{}", mean_received(&fabric));
}

#[test]
fn complete_checksums_pass_too() {
    if fabric::lacks("ethtool") {
        return;
    }
    let Some(mut fabric) = fabric("c") else { return };
    fabric.add_edges(&flowcells(65_536), &LABELS);
    for i in 0..2 {
        fabric.exec_ok(&fabric.guest(i), "ethtool -K eth0 tx off tso off gso off");
    }
    transfer(&fabric, "tcp", "10.7.0.2:9000", 20_000_000);
    transfer(&fabric, "tcp", "[fd07::2]:9002", 20_000_000);
    transfer(&fabric, "udp", "10.7.0.2:9001", 20);
    assert!(mean_received(&fabric) < 1500);
}

/// Source ports of the outer packets that leave host 0 during a transfer.
fn source_ports(config: &Config) -> Option<Vec<u16>> {
    const BYTES: u64 = 20_000_000;
    if fabric::lacks("tcpdump") {
        return None;
    }
    let mut fabric = fabric("d")?;
    fabric.add_edges(config, &LABELS);
    let host = fabric.host(1);
    let capture = in_namespace(&host, || Capture::open("u0"));
    transfer(&fabric, "tcp", "10.7.0.2:9000", BYTES);
    Some(capture.source_ports(BYTES))
}

#[test]
fn labels_are_the_outer_source_ports() {
    let Some(ports) = source_ports(&flowcells(65_536)) else { return };
    assert_eq!(ports, LABELS);
    let ports = source_ports(&Config { balance: BALANCE_ECMP, ..Config::default() }).unwrap();
    assert!(ports.len() <= 1 + 4 && !ports.is_empty(), "one flow, one port (and neighbour discovery): {ports:?}");
    assert!(ports.iter().all(|port| *port >= 49_152), "{ports:?}");
}

#[test]
fn a_kernel_vxlan_device_interoperates() {
    let Some(mut fabric) = fabric("e") else { return };
    fabric.add_edge(0, &flowcells(65_536), &LABELS, VERSION_PLAIN, false, 1024);
    let h = fabric.host(1);
    for command in [
        "link add vx type vxlan id 7 local 192.168.99.2 remote 192.168.99.1 dstport 4789 dev u0",
        "link add b0 type bridge",
        "link set vx master b0 up",
        "link set g master b0",
        "link set b0 up",
    ] {
        fabric::ip(&format!("-n {h} {command}"));
    }
    transfer(&fabric, "tcp", "10.7.0.2:9000", 30_000_000);
    transfer(&fabric, "udp", "10.7.0.2:9001", 20);
    transfer(&fabric, "tcp", "[fd07::2]:9002", 10_000_000);
}

/// MTU-size frames on the underlay; returns the mean size received at guest 1's edge.
fn received_over_small_frames(name: &str, cell_bytes: u32, trick: bool, small_segments: bool) -> Option<u64> {
    if fabric::lacks("ethtool") {
        return None;
    }
    let mut fabric = fabric(name)?;
    fabric.add_edges(&flowcells(cell_bytes), &LABELS);
    fabric
        .exec_ok(&fabric.host(0), "ethtool -K u0 tso off gso off tx-udp_tnl-segmentation off tx-udp-segmentation off");
    fabric.exec_ok(&fabric.host(1), "ethtool -K u0 gro on");
    if small_segments {
        fabric.exec_ok(&fabric.guest(0), "ethtool -K eth0 tso off gso off");
    }
    if trick {
        let host = fabric.host(1);
        in_namespace(&host, || {
            live::gro::add("svgro", 4789, false).unwrap();
            live::gro::add("svgro", 4789, false).expect("adding twice is fine");
            live::gro::up("svgro").unwrap();
        });
    }
    transfer(&fabric, "tcp", "10.7.0.2:9000", 30_000_000);
    if trick {
        let host = fabric.host(1);
        in_namespace(&host, || {
            live::gro::remove("svgro").unwrap();
            live::gro::remove("svgro").expect("removing twice is fine");
        });
    }
    Some(mean_received(&fabric))
}

#[test]
fn small_frames_of_one_label_merge_and_of_different_labels_do_not() {
    let Some(merged) = received_over_small_frames("f", 65_536, true, false) else { return };
    assert!(merged > 5_000, "with the device: {merged}");
    let without = received_over_small_frames("g", 65_536, false, false).unwrap();
    assert!(without < 1_500, "without it nothing merges in front of the edge: {without}");
    let labels = received_over_small_frames("h", 1, true, true).unwrap();
    assert!(labels < 1_500, "each segment its own cell and label: {labels}");
}

#[test]
fn a_full_flow_table_forwards_and_counts_and_old_flows_keep_their_state() {
    let Some(mut fabric) = fabric("i") else { return };
    for i in 0..2 {
        fabric.add_edge(i, &flowcells(65_536), &LABELS, VERSION_1, false, 2);
    }
    for port in 0..6 {
        transfer(&fabric, "udp", &format!("10.7.0.2:{}", 9000 + port), 3);
    }
    transfer(&fabric, "tcp", "10.7.0.2:9100", 10_000_000);
    let sent = counters(&fabric, 0);
    assert!(sent.get(Counter::FlowTableFull) > 100, "{sent:?}");
    let edge = &fabric.edges[0].edge;
    assert_eq!(edge.flows().unwrap().len(), 2);
    let event = edge.poll_events(Duration::from_millis(10)).unwrap();
    assert!(event.iter().any(|e| e.kind == live::state::EVENT_TABLE_FULL));
    assert_eq!(edge.sweep(live::kernel::monotonic_ns()).unwrap().expired, 0);
    let later = live::kernel::monotonic_ns() + 61_000_000_000;
    assert_eq!(edge.sweep(later).unwrap().expired, 2);
    transfer(&fabric, "tcp", "10.7.0.2:9101", 10_000_000);
    assert!(fabric.edges[0].edge.flows().unwrap().iter().any(|(_, slot)| slot.out_bytes >= 10_000_000));
}

#[test]
fn a_new_agent_adopts_what_is_pinned_while_traffic_flows() {
    let Some(mut fabric) = fabric("j") else { return };
    fabric.add_edges(&flowcells(65_536), &LABELS);
    sustained(&mut fabric, "10.7.0.2:9000", |fabric| {
        for i in 0..2 {
            let host = fabric.host(i);
            let old = fabric.edges.remove(i);
            let new = in_namespace(&host, || old.reopen());
            assert_eq!(new.edge.adopted(), live::kernel::Adopted::Existing);
            assert_eq!(new.edge.attachments().len(), 2);
            fabric.edges.insert(i, new);
        }
    });
    let flows = fabric.edges[0].edge.flows().unwrap();
    assert!(flows.iter().any(|(_, slot)| slot.out_bytes >= SUSTAINED), "one flow throughout: {flows:?}");
}

/// Waits up to a minute.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("never: {what}");
}

/// A raw socket that sees what an interface receives.
struct Capture {
    tcpdump: std::process::Child,
    file: std::path::PathBuf,
    /// Held: without a reader tcpdump would stumble over its last words.
    _stderr: BufReader<std::process::ChildStderr>,
}

impl Capture {
    fn open(interface: &str) -> Capture {
        let path = std::env::temp_dir().join(format!("selvedge-test-{}.pcap", std::process::id()));
        let mut child = std::process::Command::new("tcpdump")
            .args(["--immediate-mode", "-i", interface, "-Q", "in", "-s", "64", "-B", "65536", "-U", "-w"])
            .arg(&path)
            .args(["udp", "dst", "port", "4789"])
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("tcpdump runs");
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "tcpdump does not listen");
        }
        Capture { tcpdump: child, file: path, _stderr: said }
    }

    /// Sorted, each once, when frames of that many bytes have been written, however long that takes tcpdump.
    fn source_ports(mut self, at_least: u64) -> Vec<u16> {
        let mut ports = BTreeSet::new();
        eventually("the capture has all of it", || {
            let bytes = std::fs::read(&self.file).unwrap();
            let (mut at, mut seen) = (24, 0);
            ports.clear();
            while at + 16 <= bytes.len() {
                let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
                if let Some(port) = bytes.get(at + 16 + 34..at + 16 + 36) {
                    ports.insert(u16::from_be_bytes(port.try_into().unwrap()));
                }
                seen += u64::from(word(at + 12));
                at += 16 + word(at + 8) as usize;
            }
            seen >= at_least
        });
        let _ = self.tcpdump.kill();
        let _ = self.tcpdump.wait();
        let _ = std::fs::remove_file(&self.file);
        ports.into_iter().collect()
    }
}
