//! Real traffic between guests of two hosts, in network namespaces. Root only; says why where it is skipped.
#![cfg(feature = "libbpf")]

mod fabric;
mod processor;

use edge::Balance;
use fabric::peer::{sustained, transfer, SUSTAINED};
use fabric::{guest_mac, in_namespace, Fabric, HostEdge};
use kernel::state::{Config, Counter, Counters, VERSION_1, VERSION_2, VERSION_PLAIN};
use kernel::{Role, Segment};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use units::Bytes;
use wire::{proto, Packet};

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

fn flowcells(bytes: u64) -> Config {
    Config { balance: Balance::flowcell(Bytes(bytes)).conf(false), ..Config::default() }
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
    assert!(flows.iter().any(|(_, slot)| slot.out_bytes >= 100_000_000 && slot.balance.cell > 1000));
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
    let capture = in_namespace(&host, || Capture::open("u0", "in"));
    transfer(&fabric, "tcp", "10.7.0.2:9000", BYTES);
    Some(capture.source_ports(BYTES))
}

#[test]
fn labels_are_the_outer_source_ports() {
    let Some(ports) = source_ports(&flowcells(65_536)) else { return };
    assert_eq!(ports, LABELS);
    let ports = source_ports(&Config { balance: Balance::ecmp().conf(false), ..Config::default() }).unwrap();
    assert!(ports.len() <= 1 + 4 && !ports.is_empty(), "one flow, one port (and neighbour discovery): {ports:?}");
    assert!(ports.iter().all(|port| (0x8000..0xc000).contains(port)), "{ports:?}");
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
fn received_over_small_frames(
    name: &str,
    version: u8,
    cell_bytes: u64,
    trick: bool,
    small_segments: bool,
) -> Option<u64> {
    if fabric::lacks("ethtool") {
        return None;
    }
    let mut fabric = fabric(name)?;
    for i in 0..2 {
        fabric.add_edge(i, &flowcells(cell_bytes), &LABELS, version, false, 1024);
    }
    fabric
        .exec_ok(&fabric.host(0), "ethtool -K u0 tso off gso off tx-udp_tnl-segmentation off tx-udp-segmentation off");
    fabric.exec_ok(&fabric.host(1), "ethtool -K u0 gro on");
    if small_segments {
        fabric.exec_ok(&fabric.guest(0), "ethtool -K eth0 tso off gso off");
    }
    if trick {
        let host = fabric.host(1);
        in_namespace(&host, || {
            kernel::gro::add("svgro", 4789, false).unwrap();
            kernel::gro::add("svgro", 4789, false).expect("adding twice is fine");
            kernel::gro::up("svgro").unwrap();
        });
    }
    transfer(&fabric, "tcp", "10.7.0.2:9000", 30_000_000);
    if trick {
        let host = fabric.host(1);
        in_namespace(&host, || {
            kernel::gro::remove("svgro").unwrap();
            kernel::gro::remove("svgro").expect("removing twice is fine");
        });
    }
    for edge in &fabric.edges {
        let heard = edge.edge.all_heard(1).unwrap();
        let spoken = heard.iter().map(|(_, heard)| heard.version(version, kernel::monotonic_ns())).max();
        assert_eq!(spoken, Some(version), "{heard:?}");
    }
    Some(mean_received(&fabric))
}

#[test]
fn small_frames_of_one_label_merge_and_of_different_labels_do_not() {
    for (version, names) in [(VERSION_1, ["f", "g", "h"]), (VERSION_2, ["f2", "g2", "h2"])] {
        let mean = |n: usize, cell_bytes, trick, small_segments| {
            received_over_small_frames(names[n], version, cell_bytes, trick, small_segments)
        };
        let Some(merged) = mean(0, 65_536, true, false) else { return };
        assert!(merged > 5_000, "with the device: {merged}");
        let without = mean(1, 65_536, false, false).unwrap();
        assert!(without < 1_500, "without it nothing merges in front of the edge: {without}");
        let labels = mean(2, 1, true, true).unwrap();
        assert!(labels < 1_500, "each segment its own cell and label: {labels}");
    }
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
    assert!(event.iter().any(|e| e.kind == kernel::state::EVENT_TABLE_FULL));
    assert_eq!(edge.sweep(kernel::monotonic_ns()).unwrap().expired, 0);
    let later = kernel::monotonic_ns() + 61_000_000_000;
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
            assert_eq!(new.edge.adopted(), kernel::Adopted::Existing);
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
    file: tempfile::TempPath,
    /// Held: without a reader tcpdump would stumble over its last words.
    _stderr: BufReader<std::process::ChildStderr>,
}

impl Capture {
    /// `direction`: in or out.
    fn open(interface: &str, direction: &str) -> Capture {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let mut child = std::process::Command::new("tcpdump")
            .args([
                "--immediate-mode",
                "-i",
                interface,
                "-Q",
                direction,
                "-s",
                "128",
                "-B",
                "65536",
                "-U",
                "-Z",
                "root",
                "-w",
            ])
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

    /// When frames of that many bytes have been written, however long that takes tcpdump.
    fn frames(mut self, at_least: u64) -> Vec<Captured> {
        let mut frames = Vec::new();
        eventually("the capture has all of it", || {
            let bytes = std::fs::read(&self.file).unwrap();
            let mut at = 24;
            frames.clear();
            while at + 16 <= bytes.len() {
                let word = |at: usize| u64::from(u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap()));
                let next = at + 16 + word(at + 8) as usize;
                let Some(head) = bytes.get(at + 16..next) else { break };
                let time = Duration::from_secs(word(at)) + Duration::from_micros(word(at + 4));
                frames.push(Captured { time, bytes: word(at + 12), head: head.to_vec() });
                at = next;
            }
            frames.iter().map(|frame| frame.bytes).sum::<u64>() >= at_least
        });
        let _ = self.tcpdump.kill();
        let _ = self.tcpdump.wait();
        frames
    }

    /// Sorted, each once.
    fn source_ports(self, at_least: u64) -> Vec<u16> {
        let ports: BTreeSet<u16> = self.frames(at_least).iter().map(|frame| frame.half(34)).collect();
        ports.into_iter().collect()
    }
}

/// The beginning of one frame in the tunnel's format over IPv4.
struct Captured {
    time: Duration,
    /// Of the whole frame.
    bytes: u64,
    head: Vec<u8>,
}

impl Captured {
    fn half(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.head[at..at + 2].try_into().unwrap())
    }

    /// Label and cell, if there is a TCP segment over IPv4 to that port within.
    fn choice(&self, port: u16) -> Option<(u16, u8)> {
        let is_one = self.head.get(73) == Some(&6) && self.head.len() >= 88 && self.half(86) == port;
        is_one.then(|| (self.half(34), self.head[49]))
    }
}

#[test]
fn flowlets_change_their_label_after_a_pause_and_only_then() {
    const GAP: Duration = Duration::from_millis(100);
    const BURST: usize = 1_000_000;
    const BURSTS: usize = 5;
    if fabric::lacks("tcpdump") {
        return;
    }
    let Some(mut fabric) = fabric("p") else { return };
    let balance = Balance::flowlet(units::Time::from_ms(100)).conf(true);
    fabric.add_edges(&Config { balance, ..Config::default() }, &LABELS);
    let capture = in_namespace(&fabric.host(0), || Capture::open("u0", "out"));
    let server = in_namespace(&fabric.guest(1), || TcpListener::bind("10.7.0.2:9000").unwrap());
    let mut client = in_namespace(&fabric.guest(0), || TcpStream::connect("10.7.0.2:9000").unwrap());
    let (mut served, _) = server.accept().unwrap();
    for burst in 0..BURSTS {
        if burst > 0 {
            std::thread::sleep(10 * GAP);
        }
        // Nothing is under way at the end of a burst.
        let reader = std::thread::spawn(move || {
            served.read_exact(&mut vec![0; BURST]).unwrap();
            served
        });
        client.write_all(&vec![7; BURST]).unwrap();
        served = reader.join().unwrap();
    }
    let frames = capture.frames((BURST * BURSTS) as u64);
    let segments: Vec<(Duration, u16, u8)> =
        frames.iter().filter_map(|frame| frame.choice(9000).map(|(label, cell)| (frame.time, label, cell))).collect();
    let (mut kept, mut changed, mut judged) = (0, 0, [0; 2]);
    for pair in segments.windows(2) {
        let ((before, label, cell), (after, next, next_cell)) = (pair[0], pair[1]);
        let change = next_cell != cell;
        let place = LABELS.iter().position(|known| *known == label).unwrap();
        let expected = LABELS[(place + usize::from(change)) % LABELS.len()];
        assert_eq!((next, next_cell), (expected, cell.wrapping_add(change.into())), "in turn, one by one");
        *if change { &mut changed } else { &mut kept } += 1;
        // The program looks at the clock a little earlier than the capture: what lies near the gap proves nothing.
        let pause = after.saturating_sub(before);
        if pause > 2 * GAP || pause < GAP / 2 {
            judged[usize::from(change)] += 1;
            assert_eq!(change, pause > GAP, "{pause:?} after label {label}, cell {cell}");
        }
    }
    assert!(judged[1] >= BURSTS - 1 && judged[0] >= BURSTS, "{judged:?} of {kept} and {changed}");
    let flows = fabric.edges[0].edge.flows().unwrap();
    let (_, slot) = flows.iter().find(|(key, _)| key.key.dport == 9000).unwrap();
    assert_eq!(slot.balance.cell as usize, changed);
}

const MAC_A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const MAC_B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];
const NOBODY: [u8; 6] = [0; 6];

/// Where three packets at that time go, each by the MAC address that the program wrote: nobody's where it leaves that to the kernel.
fn next_hops(fabric: &Fabric, at_ms: u32) -> [[u8; 6]; 3] {
    let HostEdge { edge, port, .. } = &fabric.edges[0];
    let packet = Packet {
        saddr: wire::v4([10, 7, 0, 1]),
        daddr: wire::v4([10, 7, 0, 2]),
        sport: 1000,
        dport: 2000,
        proto: proto::UDP,
        family: 4,
        ..Packet::default()
    };
    let frame = kernel::emit::frame(&packet, guest_mac(0), guest_mac(1)).unwrap();
    edge.set_config(&Config { test_now_us: at_ms * 1000, ..edge.config().unwrap() }).unwrap();
    in_namespace(&fabric.host(0), || {
        processor::stay_on_one();
        [(); 3].map(|()| {
            let segment = Segment { ifindex: *port, ..Segment::default() };
            let (verdict, frame) = edge.test_run_segment(Role::Guest, &frame, segment).unwrap();
            assert_eq!(verdict, 7, "TC_ACT_REDIRECT");
            frame[..6].try_into().unwrap()
        })
    })
}

#[test]
fn a_next_hop_is_kept_for_a_tick_where_the_uplink_forwards() {
    for (name, six) in [("n", false), ("o", true)] {
        let Some(mut fabric) = fabric(name) else { return };
        fabric.options.test_clock = true;
        fabric.add_edge(0, &flowcells(65_536), &LABELS, VERSION_1, six, 1024);
        let host = fabric.host(0);
        let other = if six { "fd99::2" } else { "192.168.99.2" };
        let forward = |on: u8| {
            fabric.exec_ok(&host, &format!("sysctl -qw net.ipv4.ip_forward={on} net.ipv6.conf.all.forwarding={on}"));
        };
        let neighbour =
            |mac: &str| fabric::ip(&format!("-n {host} neigh replace {other} lladdr {mac} dev u0 nud permanent"));
        neighbour("02:00:00:00:00:0a");
        forward(0);
        assert_eq!(next_hops(&fabric, 100), [NOBODY; 3], "the kernel does not say");
        forward(1);
        assert_eq!(next_hops(&fabric, 200), [NOBODY, MAC_A, MAC_A], "the first of each tick is the kernel's");
        neighbour("02:00:00:00:00:0b");
        assert_eq!(next_hops(&fabric, 200), [MAC_A; 3]);
        assert_eq!(next_hops(&fabric, 205), [NOBODY, MAC_B, MAC_B]);
        fabric::ip(&format!("-n {host} neigh del {other} dev u0"));
        assert_eq!(next_hops(&fabric, 210), [NOBODY; 3], "the kernel has to ask for it");
    }
}
