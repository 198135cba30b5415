//! The hidden overlay between edges: what leaves, what arrives, and what strangers cannot do.

use edge::hidden::{Config, Peers};
use edge::{Departure, Direction, DropReason, Edge, Slot, Verdict};
use std::sync::Arc;
use units::Time;
use wire::feedback::{Feedback, CE, NONE};
use wire::hidden::{Bytes, Hidden};
use wire::{ecn, proto, tcp, v4, version, Packet};

const A: u32 = 0xc612_0001;
const B: u32 = 0xc612_0002;
const C: u32 = 0xc612_0003;

/// 10.0.0.1 and 10.0.0.11 are behind A, 10.0.0.2 behind B, 10.0.0.3 behind C.
fn edge(address: u32, balance: &str) -> Edge {
    let guests = [(1, A), (11, A), (2, B), (3, C)].map(|(guest, edge)| (0x0a00_0000 + guest, edge));
    let hidden = Config { address, peers: Arc::new(Peers::new(guests)), mtu: 1500 };
    let mut edge =
        Edge::new(edge::Config { balance: balance.parse().unwrap(), hidden: Some(hidden), ..edge::Config::default() });
    edge.set_default_schedule(&[0xc001, 0xc002]);
    edge
}

const CLOVE: &str = "clove,flowlet_gap=100us,clove_relay=50us,clove_clear=200us";

fn guest(n: u8) -> [u32; 4] {
    v4([10, 0, 0, n])
}

fn data(from: u8, to: u8) -> Packet {
    Packet {
        saddr: guest(from),
        daddr: guest(to),
        sport: 1000,
        dport: 80,
        payload: 1000,
        proto: proto::TCP,
        family: 4,
        tcp_flags: tcp::ACK,
        ip_header_len: 20,
        l4_header_len: 32,
        ..Packet::default()
    }
}

/// Through the source edge, as drivers do.
fn sent(edge: &mut Edge, now: Time, mut p: Packet) -> (Packet, Departure) {
    p.wire = edge.wire();
    assert_eq!(edge.process(now, Direction::Egress, Slot(1), &mut p), Verdict::Forward);
    let departure = edge.depart(now, &mut p);
    (p, departure)
}

/// Through the destination edge.
fn arrived(edge: &mut Edge, now: Time, mut p: Packet, option: &Bytes) -> Packet {
    assert!(edge.is_hidden(&p));
    let told = edge.restore(&mut p, Some(option)).unwrap();
    edge::ecn::arrives(&mut p);
    let label = p.label;
    edge.hear(now, &p, label, None, told);
    assert_eq!(edge.process(now, Direction::Ingress, Slot(1), &mut p), Verdict::Forward);
    p
}

#[test]
fn the_fabric_sees_edges_and_the_guest_its_peer() {
    let (mut a, mut b) = (edge(A, CLOVE), edge(B, CLOVE));
    let (between, departure) = sent(&mut a, Time::from_us(10), data(1, 2));
    assert_eq!((between.saddr[3], between.daddr[3], between.dport), (A, B, 7471));
    assert!(matches!(between.sport, 0xc001 | 0xc002), "{:#x}", between.sport);
    assert_eq!((between.l4_header_len, between.network_ecn()), (52, ecn::ECT0), "Clove asks for marks");
    let back = arrived(&mut b, Time::from_us(20), between, &departure.option.unwrap());
    assert_eq!((back.flow_key(), back.l4_header_len, back.ecn), (data(1, 2).flow_key(), 32, ecn::NOT_ECT));
    assert_eq!(a.counters().hidden.hidden_segments, 1);
    assert_eq!(b.counters().hidden.restored_packets, 1);
}

/// A mark of the fabric comes back in the option of what flows the other way, and moves weight.
#[test]
fn feedback_travels_in_the_option() {
    let (mut a, mut b) = (edge(A, CLOVE), edge(B, CLOVE));
    let (mut between, departure) = sent(&mut a, Time::from_us(10), data(1, 2));
    let label = between.label;
    assert!(between.mark_ce());
    let got = arrived(&mut b, Time::from_us(20), between, &departure.option.unwrap());
    assert_eq!(got.ecn, ecn::NOT_ECT, "the guest does not speak ECN");
    let (reverse, answer) = sent(&mut b, Time::from_us(200), Packet { payload: 0, ..data(2, 1) });
    assert_eq!(answer.feedback, Feedback { kind: CE, path: label as u8, value: 0 });
    arrived(&mut a, Time::from_us(210), reverse, &answer.option.unwrap());
    let marked: Vec<u16> = a
        .paths_to(&guest(2))
        .filter(|(_, state)| state.weight < edge::WEIGHT_ONE / 2)
        .map(|(label, _)| label)
        .collect();
    assert_eq!(marked, [label]);
}

#[test]
fn what_has_no_room_leaves_as_it_is_and_says_nothing() {
    let mut a = edge(A, CLOVE);
    let sack = Packet { payload: 0, l4_header_len: 44, ..data(1, 2) };
    let udp = Packet { proto: proto::UDP, l4_header_len: 8, tcp_flags: 0, ..data(1, 2) };
    let six = Packet { family: 6, ip_header_len: 40, saddr: [1; 4], daddr: [2; 4], ..data(1, 2) };
    let nobody = data(1, 99);
    for (n, p) in [sack, udp, six, nobody].into_iter().enumerate() {
        let (left, departure) = sent(&mut a, Time::from_us(10 + n as u64), p);
        assert_eq!((left.flow_key(), left.l4_header_len), (p.flow_key(), p.l4_header_len));
        assert_eq!((left.label, left.has_cell, left.network_ecn(), left.wire), (0, 0, p.ecn, version::ONE));
        assert_eq!(departure, Departure { feedback: Feedback { kind: NONE, path: 0, value: 0 }, option: None });
    }
    let counters = a.counters().hidden;
    assert_eq!((counters.no_room_segments, counters.plain_segments, counters.hidden_segments), (1, 3, 0));
}

#[test]
fn handshakes_leave_room_for_the_option() {
    let mut a = edge(A, "ecmp");
    let syn = |mss, l4_header_len| Packet { tcp_flags: tcp::SYN, payload: 0, mss, l4_header_len, ..data(1, 2) };
    assert_eq!(sent(&mut a, Time::ZERO, syn(1460, 40)).0.mss, 1440);
    let (left, departure) = sent(&mut a, Time::ZERO, syn(1460, 60));
    assert_eq!((left.mss, departure.option), (1440, None), "also where the SYN itself has none");
    assert_eq!(sent(&mut a, Time::ZERO, syn(536, 40)).0.mss, 536);
    assert_eq!(a.counters().hidden.lowered_mss, 2);
}

/// What a stranger writes into the option makes no packet another guest's.
#[test]
fn an_option_cannot_name_guests_of_other_edges() {
    let option = |from: u8, to: u8| {
        let [saddr, daddr] = [from, to].map(|n| guest(n)[3]);
        Hidden { saddr, daddr, sport: 1, dport: 2, version: 2, ..Hidden::default() }.bytes()
    };
    let outer = |from: u32| Packet {
        saddr: [0, 0, 0xffff, from],
        daddr: [0, 0, 0xffff, B],
        sport: 0xc001,
        dport: 7471,
        wire: version::TWO,
        l4_header_len: 52,
        ..data(1, 2)
    };
    let mut b = edge(B, CLOVE);
    for (from, says, why) in [
        (A, option(3, 2), "another edge's guest"),
        (A, option(2, 2), "this edge's own guest"),
        (A, option(99, 2), "nobody"),
        (A, option(1, 3), "for a guest elsewhere"),
        (A, option(1, 99), "for nobody"),
        (C, option(1, 2), "from another edge"),
        (0x0a00_0001, option(1, 2), "from a guest"),
        (0, option(99, 2), "from nowhere, of nobody"),
    ] {
        let mut p = outer(from);
        assert_eq!(b.restore(&mut p, Some(&says)), Err(DropReason::Forged), "{why}");
        assert_eq!(p, outer(from), "{why}: and nothing of it was believed");
    }
    assert_eq!(b.counters().hidden.forged_packets, 8);
    let mut cut = option(1, 2);
    cut[1] = 12;
    assert_eq!(b.restore(&mut outer(A), Some(&cut)), Err(DropReason::Malformed));
    assert_eq!(b.restore(&mut outer(A), None), Err(DropReason::Malformed));
    assert_eq!(b.counters().hidden.malformed_packets, 2);
    assert!(b.restore(&mut outer(A), Some(&option(11, 2))).is_ok(), "the other guest there");
    assert!(!b.is_hidden(&Packet { daddr: guest(2), ..outer(A) }), "to a guest: its own traffic");
    assert!(!b.is_hidden(&Packet { dport: 80, ..outer(A) }));
}

#[test]
fn guests_speak_to_no_edge_and_for_no_other() {
    let mut a = edge(A, CLOVE);
    let to_edge = Packet { daddr: [0, 0, 0xffff, B], dport: 7471, ..data(1, 2) };
    for (p, why) in [(to_edge, "to an edge"), (data(2, 3), "as another"), (data(99, 2), "as nobody")] {
        let verdict = a.process(Time::ZERO, Direction::Egress, Slot(1), &mut { p });
        assert_eq!(verdict, Verdict::Drop(DropReason::Forged), "{why}");
    }
    assert_eq!(a.counters().hidden.refused_segments, 3);
}

/// Eight bits of a cell's number are enough, whatever came before.
#[test]
fn numbers_of_cells_go_on() {
    let (mut a, mut b) = (edge(A, "flowcell,threshold=1000B"), edge(B, "ecmp"));
    let mut cells = Vec::new();
    for n in 0..600 {
        let now = Time::from_us(10 + n);
        let (between, departure) = sent(&mut a, now, Packet { seq: 1000 * n as u32, ..data(1, 2) });
        let cell = between.cell;
        let got = arrived(&mut b, now, Packet { cell: 0, ..between }, &departure.option.unwrap());
        assert_eq!((got.cell, got.has_cell), (cell, 1));
        cells.push(cell);
    }
    assert!(cells.last().is_some_and(|last| *last > 256), "{cells:?}");
}
