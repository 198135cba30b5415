//! Clove through whole edges: what one says, what the other does, and what guests see.

use crate::vcc::{self, Class};
use crate::{hygenicc, Balance, Config, Direction, Edge, Slot};
use proptest::prelude::*;
use units::{BitRate, Time};
use wire::feedback::{Feedback, CE, UTILISATION};
use wire::{ecn, proto, tcp, v4, version, Packet};

const LABELS: [u16; 4] = [0xc001, 0xc002, 0xc003, 0xc004];
const HERE: u8 = 1;
const THERE: u8 = 2;

fn address(host: u8) -> [u32; 4] {
    v4([10, 0, 0, host])
}

fn edge(balance: &str, congestion: bool) -> Edge {
    let congestion = congestion.then(|| vcc::Config::new(Class::default()));
    let mut edge = Edge::new(Config { balance: balance.parse().unwrap(), congestion, ..Config::default() });
    edge.set_default_schedule(&LABELS);
    edge
}

fn segment(from: u8, to: u8, flags: u8, payload: u32) -> Packet {
    Packet {
        saddr: address(from),
        daddr: address(to),
        sport: u16::from(from),
        dport: u16::from(to),
        payload,
        proto: proto::TCP,
        family: 4,
        tcp_flags: flags,
        window: 1000,
        ip_header_len: 20,
        l4_header_len: 20,
        ..Packet::default()
    }
}

fn send(edge: &mut Edge, now: Time, mut packet: Packet) -> (Packet, Feedback) {
    packet.wire = edge.wire();
    edge.process(now, Direction::Egress, Slot::default(), &mut packet);
    let feedback = edge.feedback_to(now, &packet);
    crate::ecn::departs(&mut packet);
    (packet, feedback)
}

fn receive(edge: &mut Edge, now: Time, (mut packet, feedback): (Packet, Feedback)) -> Packet {
    crate::ecn::arrives(&mut packet);
    edge.hear(now, &packet, packet.label, None, feedback);
    edge.process(now, Direction::Ingress, Slot::default(), &mut packet);
    packet
}

fn mark(packet: &mut Packet) {
    assert_ne!(packet.outer_ecn, ecn::NOT_ECT, "a switch would not mark it");
    packet.outer_ecn = ecn::CE;
}

fn weights(edge: &Edge, to: u8) -> Vec<u32> {
    edge.paths_to(&address(to)).map(|(_, path)| path.weight).collect()
}

const CLOVE: &str = "clove,flowlet_gap=100us,clove_relay=50us,clove_clear=200us";

#[test]
fn a_mark_comes_back_and_moves_flowlets_and_no_guest_sees_it() {
    let (mut here, mut there) = (edge(CLOVE, false), edge(CLOVE, false));
    for (ms, codepoint) in (1..).zip([ecn::NOT_ECT, ecn::ECT0, ecn::ECT1]) {
        let now = Time::from_ms(ms);
        let data = Packet { ecn: codepoint, ..segment(HERE, THERE, tcp::ACK, 1000) };
        let (mut data, nothing) = send(&mut here, now, data);
        assert_eq!((nothing, data.outer_ecn), (Feedback::default(), codepoint.max(1) + u8::from(codepoint == 0)));
        mark(&mut data);
        let got = receive(&mut there, now, (data, nothing));
        assert_eq!((got.ecn, got.marked), (codepoint, 1), "without the mark");
        let (ack, told) = send(&mut there, now, segment(THERE, HERE, tcp::ACK, 0));
        assert_eq!(told, Feedback { kind: CE, path: data.label as u8, value: 0 });
        let before = weights(&here, THERE);
        let at = usize::from(data.label - LABELS[0]);
        let got = receive(&mut here, now, (ack, told));
        assert_eq!(got.tcp_flags, tcp::ACK);
        let after = weights(&here, THERE);
        assert_eq!(after[at], before[at] - before[at] / 3);
        assert_eq!(after.iter().sum::<u32>(), 65_536);
    }
}

#[test]
fn weights_come_back_where_that_is_asked_for() {
    for (scheme, comes_back) in [(CLOVE.to_owned(), false), (format!("{CLOVE},clove_recover=1ms"), true)] {
        let (mut here, mut there) = (edge(&scheme, false), edge(&scheme, false));
        let now = Time::from_ms(5);
        let (mut data, nothing) = send(&mut here, now, segment(HERE, THERE, tcp::ACK, 1000));
        mark(&mut data);
        receive(&mut there, now, (data, nothing));
        let feedback = send(&mut there, now, segment(THERE, HERE, tcp::ACK, 0));
        receive(&mut here, now, feedback);
        let marked = weights(&here, THERE);
        let at = usize::from(data.label - LABELS[0]);
        // A flowlet each millisecond, and no mark.
        for ms in 6..=60 {
            send(&mut here, Time::from_ms(ms), segment(HERE, THERE, tcp::ACK, 1000));
            assert_eq!(weights(&here, THERE).iter().sum::<u32>(), 65_536);
        }
        let later = weights(&here, THERE);
        assert_eq!(later == marked, !comes_back, "{scheme}: {marked:?} {later:?}");
        let mean = 65_536 / later.len() as u32;
        assert_eq!(later[at] >= mean, comes_back, "{scheme}: {later:?}");
    }
}

#[test]
fn guests_that_send_ce_say_nothing_of_paths() {
    let (mut here, mut there) = (edge(CLOVE, false), edge(CLOVE, false));
    let now = Time::from_ms(1);
    let (data, feedback) = send(&mut here, now, Packet { ecn: ecn::CE, ..segment(HERE, THERE, tcp::ACK, 1000) });
    assert_eq!(data.outer_ecn, ecn::CE);
    assert_eq!(receive(&mut there, now, (data, feedback)).ecn, ecn::CE);
    assert_eq!(send(&mut there, now, segment(THERE, HERE, tcp::ACK, 0)).1, Feedback::default());
}

/// Sends a segment, and has feedback on these paths come in; returns the flags of the ACK that the guest then gets.
fn flags_after(here: &mut Edge, now: Time, codepoint: u8, marked: &[u8]) -> u8 {
    send(here, now, Packet { ecn: codepoint, ..segment(HERE, THERE, tcp::ACK, 1000) });
    let ack = || Packet { wire: version::TWO, ..segment(THERE, HERE, tcp::ACK, 0) };
    for path in marked {
        receive(here, now, (ack(), Feedback { kind: CE, path: *path, value: 0 }));
    }
    receive(here, now, (ack(), Feedback::default())).tcp_flags
}

#[test]
fn the_guest_hears_of_marks_once_all_paths_are_congested_if_it_speaks_ecn() {
    let mut here = edge(CLOVE, false);
    let at = Time::from_us;
    assert_eq!(flags_after(&mut here, at(1000), ecn::ECT0, &[1, 2, 3]), tcp::ACK, "the fourth is free");
    assert_eq!(flags_after(&mut here, at(1100), ecn::ECT0, &[4]), tcp::ACK | tcp::ECE);
    assert_eq!(flags_after(&mut here, at(1190), ecn::ECT0, &[]), tcp::ACK | tcp::ECE);
    assert_eq!(flags_after(&mut here, at(1210), ecn::ECT0, &[]), tcp::ACK, "three are free again");
    let mut deaf = edge(CLOVE, false);
    assert_eq!(flags_after(&mut deaf, at(1000), ecn::NOT_ECT, &[1, 2, 3, 4]), tcp::ACK, "it would not understand");
    let mut other = edge("flowlet", false);
    assert_eq!(flags_after(&mut other, at(1000), ecn::ECT0, &[1, 2, 3, 4]), tcp::ACK);
}

/// A marked segment under virtual congestion control, with further marks heard of the paths: is the sender's window cut?
fn cut(balance: &str, marked: &[u8]) -> bool {
    let (mut here, mut there) = (edge(balance, true), edge(balance, true));
    let now = Time::from_ms(1);
    for (from, flags, ack) in [(HERE, tcp::SYN, 0), (THERE, tcp::SYN | tcp::ACK, 1)] {
        let syn = Packet { ack, wscale: 1, mss: 1460, ..segment(from, HERE + THERE - from, flags, 0) };
        let (sender, receiver) = if from == HERE { (&mut here, &mut there) } else { (&mut there, &mut here) };
        let sent = send(sender, now, syn);
        receive(receiver, now, sent);
    }
    let (mut data, feedback) = send(&mut here, now, Packet { seq: 1, ack: 1, ..segment(HERE, THERE, tcp::ACK, 1000) });
    mark(&mut data);
    let got = receive(&mut there, now, (data, feedback));
    assert_eq!(got.ecn, ecn::NOT_ECT);
    assert_eq!(there.counters().congestion.marked_bytes, 1000, "each mark is counted where it arrives");
    let (ack, told) = send(&mut there, now, Packet { seq: 1, ack: 1001, ..segment(THERE, HERE, tcp::ACK, 0) });
    assert_eq!((told.kind, ack.pack), (CE, wire::pack::SHIM));
    for path in marked {
        let news = Feedback { kind: CE, path: *path, value: 0 };
        here.hear(now, &segment(THERE, HERE, tcp::ACK, 0), 0, None, news);
    }
    let key = segment(HERE, THERE, tcp::ACK, 0).flow_key();
    let before = here.congestion(&key).unwrap().cwnd;
    let got = receive(&mut here, now, (ack, told));
    assert_eq!(got.tcp_flags, tcp::ACK, "the guest is held by its window");
    let after = here.congestion(&key).unwrap();
    assert_eq!(after.marked.get(), 1000, "reported in any case");
    after.cwnd < before
}

#[test]
fn congestion_control_beside_it_counts_every_mark_unless_that_is_masked() {
    let all = [1, 2, 3, 4];
    let masks = format!("{CLOVE},clove_masks=all");
    assert_eq!([cut(CLOVE, &[]), cut(CLOVE, &all)], [true, true]);
    assert_eq!([cut(&masks, &[]), cut(&masks, &all)], [false, true], "masked while a path is free");
}

/// On one edge, with one place for feedback a packet.
#[test]
fn clove_congestion_control_and_shares_each_count_every_mark() {
    const MARKED: u32 = 3;
    let united = |guest| {
        let shares = hygenicc::Config::new(BitRate::from_gbps(10), Time::from_us(100));
        let mut edge = Edge::new(Config {
            balance: CLOVE.parse().unwrap(),
            congestion: Some(vcc::Config::new(Class::default())),
            hygenicc: Some(hygenicc::Config { guests: vec![(address(guest), 1)], ..shares }),
            ..Config::default()
        });
        edge.set_default_schedule(&LABELS);
        edge
    };
    let (mut here, mut there) = (united(HERE), united(THERE));
    let mut now = Time::from_ms(1);
    for (from, flags, ack) in [(HERE, tcp::SYN, 0), (THERE, tcp::SYN | tcp::ACK, 1)] {
        let syn = Packet { ack, wscale: 1, mss: 1460, ..segment(from, HERE + THERE - from, flags, 0) };
        let (sender, receiver) = if from == HERE { (&mut here, &mut there) } else { (&mut there, &mut here) };
        let sent = send(sender, now, syn);
        receive(receiver, now, sent);
    }
    let full = weights(&here, THERE);
    let mut paths = Vec::new();
    for n in 0..MARKED {
        now += Time::from_us(200);
        let data = Packet { seq: 1 + 1000 * n, ack: 1, ..segment(HERE, THERE, tcp::ACK, 1000) };
        let (mut data, feedback) = send(&mut here, now, data);
        paths.push(usize::from(data.label - LABELS[0]));
        mark(&mut data);
        assert_eq!(receive(&mut there, now, (data, feedback)).ecn, ecn::NOT_ECT, "the guest sees none");
        // What two of them have to say takes two packets; congestion control's is in a shim.
        for _ in 0..3 {
            now += Time::from_us(60);
            let ack = Packet { seq: 1, ack: 1001 + 1000 * n, ..segment(THERE, HERE, tcp::ACK, 0) };
            let ack = send(&mut there, now, ack);
            assert_eq!(receive(&mut here, now, ack).tcp_flags, tcp::ACK);
        }
    }
    let counted = there.counters();
    assert_eq!((counted.congestion.marked_bytes, counted.hygenicc.marks_counted), (3000, 3));
    assert_eq!(paths.iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "{paths:?}");
    let reported = here.congestion(&segment(HERE, THERE, tcp::ACK, 0).flow_key()).unwrap();
    assert_eq!((reported.marked.get(), here.counters().hygenicc.marks_heard), (3000, 3));
    let cut = weights(&here, THERE);
    for (path, before) in full.iter().enumerate() {
        assert_eq!(cut[path] < *before, paths.contains(&path), "{paths:?}: {full:?} {cut:?}");
    }
}

proptest! {
    /// Whatever one peer says, also of paths that are not there, late, again and out of order: shares towards it sum to one, and those
    /// towards another stay as they are.
    #[test]
    fn feedback_of_one_peer_moves_nothing_towards_another(
        said in proptest::collection::vec((0u8..4, any::<u8>(), any::<u8>(), 0u64..500), 0..200),
    ) {
        const THIRD: u8 = 3;
        for balance in [CLOVE, "clove-int,flowlet_gap=100us,clove_relay=50us,clove_age=200us"] {
            let mut here = edge(balance, false);
            let mut now = Time::from_ms(1);
            for to in [THERE, THIRD] {
                send(&mut here, now, segment(HERE, to, tcp::ACK, 1000));
            }
            let towards = |edge: &Edge, to| edge.paths_to(&address(to)).collect::<Vec<_>>();
            let before = towards(&here, THIRD);
            for (kind, path, value, pause) in &said {
                now += Time::from_us(*pause);
                let path = if path % 3 == 0 { *path } else { path % 6 };
                let ack = Packet { wire: version::TWO, ..segment(THERE, HERE, tcp::ACK, 0) };
                receive(&mut here, now, (ack, Feedback { kind: *kind, path, value: *value }));
                if value % 2 == 0 {
                    send(&mut here, now, segment(HERE, THERE, tcp::ACK, 1000));
                }
                if balance == CLOVE {
                    let weights = weights(&here, THERE);
                    prop_assert_eq!(weights.iter().sum::<u32>(), 65_536);
                    prop_assert!(weights.iter().all(|weight| *weight >= 655), "{:?}", weights);
                }
            }
            prop_assert_eq!(towards(&here, THIRD), before);
        }
    }
}

#[test]
fn utilisation_comes_back_and_the_least_utilised_path_is_taken() {
    let balance = "clove-int,flowlet_gap=100us,clove_relay=50us,clove_age=10ms";
    let (mut here, mut there) = (edge(balance, false), edge(balance, false));
    assert!(here.asks_for_utilisation());
    let mut now = Time::from_ms(1);
    for value in [178, 51, 230, 200] {
        let (data, _) = send(&mut here, now, segment(HERE, THERE, tcp::ACK, 1000));
        there.hear(now, &data, data.label, Some(value), Feedback::default());
        let (ack, told) = send(&mut there, now, segment(THERE, HERE, tcp::ACK, 0));
        assert_eq!(told, Feedback { kind: UTILISATION, path: data.label as u8, value });
        receive(&mut here, now, (ack, told));
        now += Time::from_us(200);
    }
    for _ in 0..3 {
        assert_eq!(send(&mut here, now, segment(HERE, THERE, tcp::ACK, 1000)).0.label, LABELS[1]);
        now += Time::from_us(200);
    }
}

#[test]
fn path_state_is_one_row_a_path_and_destination_however_many_flows() {
    const DESTINATIONS: u8 = 100;
    let mut here = edge(CLOVE, false);
    let labels: Vec<u16> = (0..=255).map(|index| 0xc000 | index).collect();
    here.set_default_schedule(&labels);
    let mut rows = |flows: u16| {
        for (to, port) in (2..2 + DESTINATIONS).flat_map(|to| (0..flows).map(move |port| (to, port))) {
            let p = Packet { sport: port, ..segment(HERE, to, tcp::ACK, 1000) };
            assert_ne!(send(&mut here, Time::from_ms(1), p).0.label, 0);
        }
        (2..2 + DESTINATIONS).map(|to| here.paths_to(&address(to)).count()).sum::<usize>()
    };
    assert_eq!([rows(1), rows(10)], [256 * usize::from(DESTINATIONS); 2]);
    // 256 paths to 1,000 destinations.
    assert!(size_of::<super::PathState>() * 256 * 1000 < 64 << 20);
}

#[test]
fn names_of_the_paper_are_aliases() {
    for (name, alias) in [("clove", "waze"), ("clove-int", "waze-int"), ("flowlet", "edge-flowlet")] {
        assert_eq!(name.parse::<Balance>(), alias.parse());
    }
}
