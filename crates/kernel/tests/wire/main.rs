//! Edges that speak version 2 of docs/wire.md with one another and with edges of old, on real traffic. Root only; says why where it is
//! skipped.
#![cfg(feature = "libbpf")]

#[path = "../fabric/mod.rs"]
mod fabric;
#[path = "../filter/mod.rs"]
mod filter;

use edge::vcc::{self, Class};
use fabric::{in_namespace, Fabric};
use filter::Filter;
use kernel::state::{Config, Counter, Peer, CONFIG_CONGESTION, VERSION_1, VERSION_2};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

const LABELS: [u16; 2] = [50_001, 50_002];

/// Two edges with congestion control, and a connection from guest 0 to guest 1.
struct Rig {
    fabric: Fabric,
    config: vcc::Config,
    client: TcpStream,
    server: TcpStream,
}

fn clock_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

const MARK: Filter =
    Filter { source: concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wire/mark.bpf.c"), object: "wire-mark.o" };

/// Not a test of its own: `scripts/kernels/test` calls it for machines that have no clang.
#[test]
#[ignore = "builds for another machine"]
fn objects_for_another_machine() {
    MARK.build_for_another_machine();
}

impl Rig {
    /// Edges that speak up to these versions; `six`: over outer IPv6.
    fn new(name: &str, versions: [u8; 2], six: bool) -> Option<Rig> {
        if let Some(why) = fabric::unavailable() {
            eprintln!("skipped: {why}");
            return None;
        }
        let config = vcc::Config::new(Class::default());
        let mut fabric = Fabric::new(name);
        let balance = edge::Balance::flowcell(units::Bytes::kib(64)).conf(false);
        for (i, version) in versions.into_iter().enumerate() {
            let config = Config { balance, ..Config::default() };
            fabric.add_edge(i, &config, &LABELS, version, six, 1024);
        }
        for host in &fabric.edges {
            host.edge.set_congestion(&config).unwrap();
            host.edge.set_config(&Config { flags: CONFIG_CONGESTION, ..host.edge.config().unwrap() }).unwrap();
        }
        let listener = in_namespace(&fabric.guest(1), || TcpListener::bind("10.7.0.2:9000").unwrap());
        let client = in_namespace(&fabric.guest(0), || TcpStream::connect("10.7.0.2:9000").unwrap());
        let (server, _) = listener.accept().unwrap();
        for stream in [&client, &server] {
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        }
        Some(Rig { fabric, config, client, server })
    }

    /// So many bytes get there, whole, and as many back.
    fn carries(&mut self, bytes: usize) {
        let sent: Vec<u8> = (0..bytes).map(|i| (i ^ i >> 8) as u8).collect();
        let mut received = vec![0; bytes];
        for _ in 0..2 {
            std::thread::scope(|scope| {
                scope.spawn(|| self.client.write_all(&sent).unwrap());
                self.server.read_exact(&mut received).unwrap();
            });
            assert!(received == sent);
            std::mem::swap(&mut self.client, &mut self.server);
        }
    }

    fn count(&self, i: usize, counter: Counter) -> u64 {
        self.fabric.edges[i].edge.counters().unwrap().get(counter)
    }

    /// The version that host `i` speaks to the other.
    fn speaks(&self, i: usize) -> u8 {
        let edge = &self.fabric.edges[i].edge;
        let peer = edge.peer(1).unwrap().expect("it has one");
        edge.heard(1).unwrap().expect("it can be known").version(peer.tunnel.version, clock_ns())
    }

    /// Bytes of guest 0 that the other edge reported as marked.
    fn marked(&self) -> u64 {
        let flows = self.fabric.edges[0].edge.flows().unwrap();
        let mut known = flows.iter().filter_map(|(_, slot)| slot.vcc.connection(&self.config));
        known.by_ref().map(|connection| connection.marked.get()).sum()
    }

    fn nothing_is_lost(&self) {
        for i in 0..2 {
            for counter in [Counter::UnknownVersion, Counter::UnknownPeer, Counter::DropEcn, Counter::DropError] {
                assert_eq!(self.count(i, counter), 0, "{counter:?} of host {i}");
            }
        }
    }

    /// From now on the link from host 0 marks. False, with the reason printed, if it cannot.
    fn mark(&self) -> bool {
        let scratch = tempfile::tempdir().unwrap();
        let object = scratch.path().join("mark.o");
        if let Err(why) = MARK.put(&object) {
            eprintln!("skipped: {why}");
            return false;
        }
        // Without tcx the edge's own filter has brought it.
        let host = self.fabric.host(0);
        let qdiscs = self.fabric.exec(&host, &["tc", "qdisc", "show", "dev", "u0"]).stdout;
        if !String::from_utf8_lossy(&qdiscs).contains("clsact") {
            self.fabric.exec_ok(&host, "tc qdisc add dev u0 clsact");
        }
        let filter = format!("tc filter add dev u0 egress bpf da obj {} sec tc", object.display());
        self.fabric.exec_ok(&self.fabric.host(0), &filter);
        true
    }
}

#[test]
fn edges_find_out_that_both_speak_version_2() {
    for (name, six) in [("w", false), ("x", true)] {
        let Some(mut rig) = Rig::new(name, [VERSION_2; 2], six) else { return };
        rig.carries(3_000_000);
        assert_eq!([rig.speaks(0), rig.speaks(1)], [VERSION_2; 2]);
        let edge = &rig.fabric.edges[0].edge;
        let heard: Vec<_> = [0, 1].map(|id| (id, edge.heard(id).unwrap().unwrap())).into();
        assert_eq!(edge.all_heard(1).unwrap(), heard);
        assert_eq!(edge.all_heard(u32::MAX).unwrap().len(), 4097);
        rig.nothing_is_lost();
        for i in 0..2 {
            assert!(rig.count(i, Counter::PacksSent) > 0 && rig.count(i, Counter::ReportsReceived) > 0);
        }
        if !rig.mark() {
            continue;
        }
        rig.carries(3_000_000);
        assert!(rig.count(1, Counter::InCe) > 0, "guests do not use ECN: the edge asked for marks");
        assert!(rig.marked() > 0, "and was told of them");
        rig.nothing_is_lost();
    }
}

#[test]
fn an_edge_of_old_is_spoken_to_in_its_version() {
    for (name, versions) in [("y", [VERSION_2, VERSION_1]), ("z", [VERSION_1, VERSION_2])] {
        let Some(mut rig) = Rig::new(name, versions, false) else { return };
        rig.carries(3_000_000);
        assert_eq!([rig.speaks(0), rig.speaks(1)], [VERSION_1; 2]);
        rig.nothing_is_lost();
        for i in 0..2 {
            assert!(rig.count(i, Counter::PacksSent) > 0 && rig.count(i, Counter::ReportsReceived) > 0);
            let flows = rig.fabric.edges[i].edge.flows().unwrap();
            assert!(flows.iter().any(|(_, slot)| slot.flow.in_cell > 10), "cells are understood");
        }
        if rig.mark() {
            rig.carries(3_000_000);
            assert!(rig.marked() > 0);
            rig.nothing_is_lost();
        }
    }
}

#[test]
fn a_connection_lives_on_while_its_edges_change_their_versions() {
    let Some(mut rig) = Rig::new("v", [VERSION_1, VERSION_2], false) else { return };
    rig.carries(1_000_000);
    for version in [VERSION_2, VERSION_1, VERSION_2] {
        let edge = &rig.fabric.edges[0].edge;
        let peer = edge.peer(1).unwrap().unwrap();
        let tunnel = kernel::state::Tunnel { version, ..peer.tunnel };
        let config = edge.config().unwrap();
        edge.set_peer(1, &Peer { tunnel, ..peer }).unwrap();
        edge.set_config(&Config { epoch: config.epoch + 1, ..config }).unwrap();
        rig.carries(1_000_000);
        assert_eq!([rig.speaks(0), rig.speaks(1)], [version; 2]);
    }
}
