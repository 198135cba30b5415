//! The edge through its public contract.

use edge::{reorder, Balance, Config, Direction, Edge, Slot, Verdict};
use units::{Bytes, Time};
use wire::{proto, tcp, v4, Packet};

const HERE: [u32; 4] = v4([10, 0, 0, 1]);
const THERE: [u32; 4] = v4([10, 0, 0, 2]);
const ELSEWHERE: [u32; 4] = v4([10, 0, 0, 3]);

fn flowcells() -> Config {
    Config { balance: Balance::flowcell(Bytes::kib(64)), ..Config::default() }
}

fn packet(sport: u16, payload: u32) -> Packet {
    Packet {
        saddr: HERE,
        daddr: THERE,
        sport,
        dport: 80,
        payload,
        proto: proto::TCP,
        family: 4,
        tcp_flags: tcp::ACK,
        ..Packet::default()
    }
}

fn answer(to: &Packet) -> Packet {
    Packet { saddr: to.daddr, daddr: to.saddr, sport: to.dport, dport: to.sport, ..*to }
}

fn send(edge: &mut Edge, now: Time, mut packet: Packet) -> Packet {
    assert_eq!(edge.process(now, Direction::Egress, Slot(0), &mut packet), Verdict::Forward);
    packet
}

fn receive(edge: &mut Edge, now: Time, mut packet: Packet) -> Verdict {
    edge.process(now, Direction::Ingress, Slot(0), &mut packet)
}

#[test]
fn each_destination_has_its_schedule() {
    let mut edge = Edge::new(flowcells());
    edge.set_schedule(THERE, &[1]);
    edge.set_default_schedule(&[9]);
    let there = send(&mut edge, Time::ZERO, packet(1, 100));
    assert_eq!((there.label, there.cell, there.has_cell), (1, 0, 1));
    assert_eq!(there.dirty, wire::dirty::LABEL);
    let elsewhere = Packet { daddr: ELSEWHERE, ..packet(1, 100) };
    assert_eq!(send(&mut edge, Time::ZERO, elsewhere).label, 9);
}

#[test]
fn a_new_schedule_waits_for_the_next_cell() {
    let mut edge = Edge::new(flowcells());
    edge.set_default_schedule(&[9]);
    assert_eq!(send(&mut edge, Time::ZERO, packet(1, 100)).label, 9);
    edge.set_schedule(THERE, &[4]);
    assert_eq!(send(&mut edge, Time::ZERO, packet(1, 100)).label, 9);
    assert_eq!(send(&mut edge, Time::ZERO, packet(1, 65_536)).label, 4);
    edge.set_schedule(THERE, &[]);
    assert_eq!(send(&mut edge, Time::ZERO, packet(1, 0)).label, 4);
    let bare = send(&mut edge, Time::ZERO, packet(1, 1));
    assert_eq!((bare.label, bare.has_cell), (0, 0));
}

#[test]
fn without_a_schedule_nothing_changes() {
    let mut edge = Edge::new(flowcells());
    assert_eq!(send(&mut edge, Time::ZERO, packet(1, 70_000)), packet(1, 70_000));
}

#[test]
fn labels_beyond_the_bound_are_ignored() {
    let mut edge = Edge::new(flowcells());
    let labels: Vec<u16> = (1..=1000).collect();
    edge.set_default_schedule(&labels);
    let mut seen: Vec<u16> = (0..300).map(|_| send(&mut edge, Time::ZERO, packet(1, 65_536)).label).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, (1..=256).collect::<Vec<u16>>());
}

#[test]
fn flows_start_at_different_paths_and_the_seed_decides() {
    let starts = |seed| {
        let mut edge = Edge::new(Config { seed, ..flowcells() });
        edge.set_default_schedule(&[1, 2, 3, 4]);
        (0..400).map(|port| send(&mut edge, Time::ZERO, packet(port, 1)).label).collect::<Vec<u16>>()
    };
    let labels = starts(1);
    for label in 1..=4 {
        let n = labels.iter().filter(|l| **l == label).count();
        // Binomial(400, 1/4): standard deviation 8.7; four of them.
        assert!(n.abs_diff(100) < 35, "{n} flows start with label {label}");
    }
    assert_eq!(labels, starts(1));
    assert_ne!(labels, starts(2));
}

#[test]
fn a_full_table_labels_new_flows_by_hash() {
    let mut edge = Edge::new(Config { max_flows: 2, ..flowcells() });
    edge.set_default_schedule(&[1, 2, 3, 4]);
    for port in 0..20 {
        let first = send(&mut edge, Time::ZERO, packet(port, 65_536));
        let second = send(&mut edge, Time::ZERO, packet(port, 65_536));
        assert_ne!(first.label, 0);
        if port < 2 {
            assert_eq!((second.has_cell, second.cell), (1, 1));
        } else {
            assert_eq!((second.has_cell, second.label), (0, first.label));
        }
    }
    assert_eq!((edge.flow_count(), edge.counters().flows_begun), (2, 2));
    assert_eq!(edge.counters().flow_table_full, 36);
}

#[test]
fn idle_flows_make_room() {
    let idle = Time::from_secs(10);
    let mut edge = Edge::new(Config { max_flows: 2, flow_idle: idle, ..flowcells() });
    edge.set_default_schedule(&[1]);
    send(&mut edge, Time::ZERO, packet(1, 1));
    send(&mut edge, Time::from_secs(5), packet(2, 1));
    let later = Time::from_secs(10) + Time::from_ns(1);
    assert_eq!(send(&mut edge, later, packet(3, 1)).has_cell, 1);
    assert_eq!(send(&mut edge, later, packet(4, 1)).has_cell, 0, "flow 2 is still alive");
    assert_eq!((edge.flow_count(), edge.counters().flows_expired), (2, 1));
}

#[test]
fn idle_flows_are_forgotten_batch_by_batch() {
    let mut edge = Edge::new(flowcells());
    edge.set_default_schedule(&[1]);
    for port in 0..100 {
        send(&mut edge, Time::ZERO, packet(port, 1));
    }
    assert_eq!(edge.flow_count(), 100);
    for ms in 0..13 {
        edge.end_batch(Time::from_secs(61) + Time::from_ms(ms));
    }
    assert_eq!((edge.flow_count(), edge.counters().flows_expired), (0, 100));
    assert_eq!(send(&mut edge, Time::from_secs(62), packet(5, 1)).cell, 0);
    assert_eq!(edge.flow_count(), 1);
}

#[test]
fn both_directions_of_a_connection_share_its_state() {
    let mut edge = Edge::new(flowcells());
    edge.set_default_schedule(&[1]);
    // Settled: who began it has sent again after an answer.
    send(&mut edge, Time::ZERO, packet(1, 100));
    assert_eq!(receive(&mut edge, Time::ZERO, answer(&packet(1, 100))), Verdict::Forward);
    send(&mut edge, Time::ZERO, packet(1, 100));
    for s in 1..=20 {
        assert_eq!(receive(&mut edge, Time::from_secs(s * 50), answer(&packet(1, 100))), Verdict::Forward);
    }
    assert_eq!((edge.flow_count(), edge.counters().flows_begun), (1, 1), "answers keep it alive");
}

#[test]
fn late_cells_are_counted() {
    let mut edge = Edge::new(flowcells());
    let segment = |cell| Packet { cell, has_cell: 1, ..answer(&packet(1, 100)) };
    for cell in [0, 1, 0, 2, 1] {
        receive(&mut edge, Time::ZERO, segment(cell));
    }
    assert_eq!(edge.counters().ingress_late, 2);
}

#[test]
fn an_edge_that_does_nothing_remembers_nothing() {
    let mut edge = Edge::new(Config::default());
    edge.set_default_schedule(&[1, 2]);
    assert_eq!(send(&mut edge, Time::ZERO, packet(1, 70_000)), packet(1, 70_000));
    assert_eq!(receive(&mut edge, Time::ZERO, answer(&packet(1, 100))), Verdict::Forward);
    edge.end_batch(Time::ZERO);
    assert_eq!((edge.flow_count(), edge.poll_timeout()), (0, None));
    assert_eq!(edge.counters().egress_segments, 1);
}

#[test]
fn a_flow_with_held_segments_does_not_expire() {
    let timeout = reorder::Timeout::Fixed(Time::from_secs(30));
    let reorder = Some(reorder::Config { timeout, ..reorder::Config::default() });
    let mut edge = Edge::new(Config { reorder, flow_idle: Time::from_secs(10), ..Config::default() });
    let segment = |cell, seq| Packet { cell, seq, has_cell: 1, ..answer(&packet(1, 100)) };
    assert_eq!(receive(&mut edge, Time::ZERO, segment(0, 0)), Verdict::Hold);
    assert_eq!(receive(&mut edge, Time::ZERO, segment(1, 1000)), Verdict::Hold);
    edge.end_batch(Time::ZERO);
    assert!(edge.poll_release(Time::ZERO).is_some());
    assert_eq!(edge.poll_release(Time::ZERO), None);
    edge.end_batch(Time::from_secs(20));
    assert_eq!(edge.flow_count(), 1);
    assert_eq!(edge.poll_timeout(), Some(Time::from_secs(30)));
    edge.handle_timeout(Time::from_secs(30));
    assert!(edge.poll_release(Time::from_secs(30)).is_some());
    assert_eq!(edge.counters().reorder.timeouts, 1);
}

#[test]
fn sender_and_receiver_agree_on_what_is_in_order() {
    let mut sender = Edge::new(flowcells());
    sender.set_default_schedule(&[1, 2, 3]);
    let mut receiver = Edge::new(Config { reorder: Some(reorder::Config::default()), ..Config::default() });
    let segment = |seq| Packet { seq, ..packet(1, 30_000) };
    let mut sent: Vec<Packet> = (0..6).map(|i| send(&mut sender, Time::ZERO, segment(i * 30_000))).collect();
    assert_eq!(sent.iter().map(|p| p.cell).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2]);
    // The middle flowcell took a slow path.
    for at in [0, 1, 4, 5, 2, 3] {
        let slot = Slot(at as u32);
        assert_eq!(receiver.process(Time::ZERO, Direction::Ingress, slot, &mut sent[at]), Verdict::Hold);
        receiver.end_batch(Time::ZERO);
    }
    let slots: Vec<u32> = std::iter::from_fn(|| receiver.poll_release(Time::ZERO)).map(|r| r.slot.0).collect();
    assert_eq!(slots, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_flowlet_ends_with_a_pause_longer_than_the_gap() {
    let mut edge = Edge::new(Config { balance: Balance::flowlet(Time::from_us(100)), ..Config::default() });
    edge.set_default_schedule(&[1, 2, 3]);
    let mut now = Time::ZERO;
    let mut at = |pause| {
        now += Time::from_us(pause);
        let sent = send(&mut edge, now, packet(1, 1000));
        (sent.label, sent.cell)
    };
    let first = at(0);
    // However long a flow goes on, without a pause it is one flowlet.
    for _ in 0..1000 {
        assert_eq!(at(90), first);
    }
    let next = first.0 % 3 + 1;
    assert_eq!(at(110), (next, first.1 + 1));
    assert_eq!(at(0), (next, first.1 + 1));
    assert_eq!(at(5000), (next % 3 + 1, first.1 + 2));
}
