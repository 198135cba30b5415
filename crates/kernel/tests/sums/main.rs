//! Sums of whole packets that a device or the kernel has made (CHECKSUM_COMPLETE) stay right through the edge. Real traffic; root only,
//! says why where it is skipped.
#![cfg(feature = "libbpf")]

#[path = "../fabric/mod.rs"]
mod fabric;
#[path = "../filter/mod.rs"]
mod filter;

use edge::vcc::{self, Class};
use fabric::peer::transfer;
use fabric::{guest_port, in_namespace, ip, Fabric};
use filter::Filter;
use kernel::state::{Config, Counter, Port, CONFIG_CONGESTION, PORT_PEER, VERSION_1, VERSION_2};
use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, TcHookBuilder, TC_INGRESS};
use std::os::fd::AsFd;
use std::path::Path;

const LABELS: [u16; 2] = [50_001, 50_002];

const CHECK: Filter =
    Filter { source: concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sums/check.bpf.c"), object: "sums-check.o" };

/// Not a test of its own: `scripts/kernels/test` calls it for machines that have no clang.
#[test]
#[ignore = "builds for another machine"]
fn objects_for_another_machine() {
    CHECK.build_for_another_machine();
}

/// Not a test of its own: see `fabric::peer`.
#[test]
fn peer_process() {
    fabric::peer::run();
}

/// The uplinks become tunnels of the kernel's, whose packets have a UDP checksum. No device verifies it: the kernel sums each packet up, and
/// what comes out of the tunnel has its part of that sum.
fn put_on_tunnels(fabric: &Fabric) {
    for i in 0..2 {
        let (h, n, other) = (fabric.host(i), i + 1, 2 - i);
        for command in [
            "link set u0 down".to_owned(),
            "link set u0 name w0".into(),
            "addr flush dev w0".into(),
            format!("addr add 192.168.98.{n}/24 dev w0"),
            "link set w0 mtu 1650 up".into(),
            format!("link add u0 type vxlan id 99 local 192.168.98.{n} remote 192.168.98.{other} dstport 8472 udpcsum dev w0"),
            format!("addr add 192.168.99.{n}/24 dev u0"),
            format!("addr add fd99::{n}/64 dev u0 nodad"),
            "link set u0 up".into(),
        ] {
            ip(&format!("-n {h} {command}"));
        }
        fabric.exec_ok(&h, "ethtool -K w0 tx off rx off");
    }
}

/// Looks at what guest `i` gets.
fn look_at(fabric: &Fabric, i: usize, object: &Path) -> Object {
    let object = ObjectBuilder::default().open_file(object).unwrap().load().unwrap();
    let program = object.progs().find(|program| program.name() == "check").unwrap();
    let program = program.as_fd();
    in_namespace(&fabric.guest(i), || {
        let ifindex = kernel::ifindex("eth0").unwrap() as i32;
        let mut hook = TcHookBuilder::new(program).ifindex(ifindex).handle(1).priority(1).hook(TC_INGRESS);
        hook.create().unwrap();
        hook.attach().unwrap();
    });
    object
}

/// Packets that had a sum, and those whose sum was wrong.
fn counts(object: &Object) -> [u64; 2] {
    let map = object.maps().find(|map| map.name() == "counts").unwrap();
    [0u32, 1].map(|key| {
        let value = map.lookup(&key.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
        u64::from_ne_bytes(value.try_into().unwrap())
    })
}

struct Case {
    name: &'static str,
    version: u8,
    outer_v6: bool,
    /// Straight to the guest's end of its pair of devices.
    short_cut: bool,
    /// `REWRITE_*`
    rewrite: u32,
    /// The edge's marks and reports are put into guests' packets, and taken out of them.
    congestion: bool,
}

#[test]
fn sums_of_whole_packets_follow_all_that_the_edge_does_to_them() {
    if fabric::lacks("ethtool") {
        return;
    }
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let object = scratch.path().join("check.o");
    if let Err(why) = CHECK.put(&object) {
        eprintln!("skipped: {why}");
        return;
    }
    let all = kernel::REWRITE_WINDOW | kernel::REWRITE_ECN;
    for case in [
        Case { name: "ma", version: VERSION_1, outer_v6: false, short_cut: true, rewrite: all, congestion: false },
        Case { name: "mb", version: VERSION_1, outer_v6: true, short_cut: false, rewrite: all, congestion: false },
        Case { name: "mc", version: VERSION_1, outer_v6: false, short_cut: false, rewrite: 0, congestion: true },
        Case { name: "md", version: VERSION_2, outer_v6: true, short_cut: true, rewrite: 0, congestion: true },
    ] {
        holds(&case, &object);
    }
}

fn holds(case: &Case, object: &Path) {
    let mut fabric = Fabric::new(case.name);
    fabric.options.test_rewrite = case.rewrite;
    put_on_tunnels(&fabric);
    let balance = edge::Balance::flowcell(units::Bytes::kib(64)).conf(false);
    let flags = if case.congestion { CONFIG_CONGESTION } else { 0 };
    for i in 0..2 {
        fabric.add_edge(i, &Config { balance, flags, ..Config::default() }, &LABELS, case.version, case.outer_v6, 1024);
        let host = &fabric.edges[i];
        host.edge.set_congestion(&vcc::Config::new(Class::default())).unwrap();
        if !case.short_cut {
            let port = guest_port(i);
            host.edge.set_port(host.port, &Port { flags: port.flags & !PORT_PEER, ..port }).unwrap();
        }
    }
    let guests = [0, 1].map(|i| look_at(&fabric, i, object));
    for (protocol, to, n) in [
        ("tcp", "10.7.0.2:9000", 2_000_000),
        ("tcp", "[fd07::2]:9001", 2_000_000),
        ("udp", "10.7.0.2:9002", 20),
        ("udp", "[fd07::2]:9003", 20),
    ] {
        let before = guests.each_ref().map(counts);
        transfer(&fabric, protocol, to, n);
        for (i, (guest, before)) in guests.iter().zip(before).enumerate() {
            let [summed, wrong] = counts(guest);
            assert!(summed - before[0] >= 20, "{}: guest {i}, {protocol} {to}: {summed}, {before:?}", case.name);
            assert_eq!(wrong, 0, "{}: guest {i}, {protocol} {to}: of {summed}", case.name);
        }
    }
    for host in &fabric.edges {
        let counters = host.edge.counters().unwrap();
        assert_eq!(counters.get(Counter::DropError), 0, "{}", case.name);
        assert_eq!(counters.get(Counter::PacksSent) > 0, case.congestion, "{}", case.name);
    }
}
