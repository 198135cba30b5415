//! `conformance/flowcells.txt` through three edges: structs, frames parsed natively, and the loaded program.
#![cfg(feature = "kernel")]

mod fabric;

use edge::{Balance, Config, Direction, Edge, Slot, Verdict};
use fabric::{in_namespace, Fabric};
use live::kernel::Role;
use live::state::{BALANCE_FLOWCELL, VERSION_1};
use units::{Bytes, Time};
use wire::{encap, proto, tcp, Packet, TcpOptions};

const LABELS: [u16; 4] = [50_001, 50_002, 50_003, 50_004];
const CELL: Bytes = Bytes::kib(4);
const TC_ACT_REDIRECT: u32 = 7;

fn packets() -> Vec<Packet> {
    include_str!("../../../conformance/flowcells.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [family, protocol, sport, dport, flags, payload, ecn] = words[..] else { panic!("line {line:?}") };
            let flag = |letter| match letter {
                'S' => tcp::SYN,
                'A' => tcp::ACK,
                'F' => tcp::FIN,
                'R' => tcp::RST,
                '-' => 0,
                _ => panic!("line {line:?}"),
            };
            let address = |n: u32| {
                if family == "4" {
                    [0, 0, 0xffff, 0x0a07_0000 | n]
                } else {
                    [0xfd07_0000, 0, 0, n]
                }
            };
            Packet {
                saddr: address(1),
                daddr: address(2),
                family: family.parse().unwrap(),
                proto: if protocol == "tcp" { proto::TCP } else { proto::UDP },
                sport: sport.parse().unwrap(),
                dport: dport.parse().unwrap(),
                tcp_flags: flags.chars().map(flag).fold(0, |all, one| all | one),
                payload: payload.parse().unwrap(),
                ecn: ecn.parse().unwrap(),
                ..Packet::default()
            }
        })
        .collect()
}

fn native() -> Edge {
    let mut edge = Edge::new(Config { balance: Balance::Flowcell { threshold: CELL }, ..Config::default() });
    edge.set_default_schedule(&LABELS);
    edge
}

#[test]
fn structs_frames_and_the_kernel_agree() {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let mut fabric = Fabric::new("k");
    let config = live::state::Config {
        balance: BALANCE_FLOWCELL,
        cell_bytes: CELL.get() as u32,
        ..live::state::Config::default()
    };
    fabric.add_edge(0, &config, &LABELS, VERSION_1, false, 1024);
    let host = fabric.host(0);
    let kernel = &fabric.edges[0];
    let (mut structs, mut frames) = (native(), native());
    let mut cells = 0;
    for (i, packet) in packets().into_iter().enumerate() {
        let mut expected = packet;
        let verdict = structs.process(Time::ZERO, Direction::Egress, Slot(0), &mut expected);
        assert_eq!(verdict, Verdict::Forward);
        cells = cells.max(expected.cell);

        let frame = wire::emit(&packet, &TcpOptions::default()).unwrap();
        let mut parsed = wire::parse(&frame).unwrap();
        frames.process(Time::ZERO, Direction::Egress, Slot(0), &mut parsed);
        let outcome = |p: &Packet| (p.label, p.has_cell, p.cell, p.ecn, p.payload, p.tcp_flags, p.dirty);
        assert_eq!(outcome(&parsed), outcome(&expected), "segment {i}, frames");

        let (verdict, out) = in_namespace(&host, || kernel.edge.test_run(Role::Guest, kernel.port, &frame).unwrap());
        assert_eq!(verdict, TC_ACT_REDIRECT, "segment {i}");
        let outer = encap::read_outer(&out, 4789).expect("encapsulated");
        let carried = outer.encap;
        assert_eq!((outer.sport, outer.ecn), (expected.label, expected.ecn), "segment {i}, kernel");
        let metadata = (carried.version, carried.vni, carried.has_cell, carried.cell);
        assert_eq!(metadata, (VERSION_1, fabric::VNI, expected.has_cell, expected.cell as u8), "segment {i}, kernel");
        assert_eq!(out[usize::from(outer.add_len)..], frame, "segment {i}: nothing was to be changed");
    }
    assert!(cells >= 1, "the script opens cells");
}
