//! Whole edges: what guests see, what travels back, what is refused and forgotten.

use crate::hygenicc::{Config, Law, PROTO};
use crate::{Config as EdgeConfig, Direction, DropReason, Edge, Slot, Verdict};
use units::{BitRate, Time};
use wire::feedback::{Feedback, MARKS, NONE};
use wire::{ecn, proto, tcp, v4, version, Packet};

pub(super) const A: [u32; 4] = v4([10, 0, 0, 1]);
pub(super) const B: [u32; 4] = v4([10, 0, 0, 2]);

pub(super) fn config(guest: [u32; 4]) -> Config {
    Config { guests: vec![(guest, 1)], ..Config::new(BitRate::from_gbps(1), Time::from_us(100)) }
}

pub(super) fn edge(config: Config) -> Edge {
    Edge::new(EdgeConfig { hygenicc: Some(config), ..EdgeConfig::default() })
}

pub(super) fn datagram(from: [u32; 4], to: [u32; 4]) -> Packet {
    Packet {
        saddr: from,
        daddr: to,
        payload: 1000,
        proto: proto::UDP,
        family: 4,
        ip_header_len: 20,
        l4_header_len: 8,
        ..Packet::default()
    }
}

/// As drivers do it: out of one edge, through a fabric that marks or not, into the other.
fn carry(from: &mut Edge, to: &mut Edge, mut p: Packet, mark: bool, now: Time) -> Option<Packet> {
    p.wire = from.wire();
    if from.process(now, Direction::Egress, Slot::default(), &mut p) != Verdict::Forward {
        return None;
    }
    let told = from.feedback_to(now, &p);
    crate::ecn::departs(&mut p);
    arrive(to, p, told, mark, now)
}

/// The peer of a guest tells where its count begins with the first packet that goes back.
fn greet(a: &mut Edge, b: &mut Edge, now: Time) {
    carry(a, b, datagram(A, B), false, now).unwrap();
    carry(b, a, datagram(B, A), false, now).unwrap();
}

fn arrive(to: &mut Edge, mut p: Packet, told: Feedback, mark: bool, now: Time) -> Option<Packet> {
    if mark && p.outer_ecn != ecn::NOT_ECT {
        p.outer_ecn = ecn::CE;
    }
    crate::ecn::arrives(&mut p);
    to.hear(now, &p, p.label, None, told);
    (to.process(now, Direction::Ingress, Slot::default(), &mut p) == Verdict::Forward).then_some(p)
}

/// Section 3: state is of pairs of guests, whatever runs between them.
#[test]
fn a_thousand_connections_of_one_pair_take_one_entry() {
    let (mut a, mut b) = (edge(config(A)), edge(config(B)));
    for n in 0..1000 {
        let tcp = Packet { proto: proto::TCP, l4_header_len: 20, tcp_flags: tcp::SYN, ..datagram(A, B) };
        let p = Packet { sport: 1024 + n, dport: 80, ..if n % 2 == 0 { tcp } else { datagram(A, B) } };
        carry(&mut a, &mut b, p, true, Time::from_ms(1 + u64::from(n)) * 5).unwrap();
        assert_eq!([a.pair_count(), b.pair_count()], [1, 1], "{n}");
    }
}

#[test]
fn guests_see_their_own_codepoint_and_senders_hear_of_marks() {
    for codepoint in [ecn::NOT_ECT, ecn::ECT0, ecn::ECT1] {
        let (mut a, mut b) = (edge(config(A)), edge(config(B)));
        let now = Time::from_ms(1);
        greet(&mut a, &mut b, now);
        let sent = Packet { ecn: codepoint, ..datagram(A, B) };
        let got = carry(&mut a, &mut b, sent, true, now).unwrap();
        assert_eq!(got.ecn, codepoint);
        assert_eq!(b.counters().hygenicc.marks_counted, 1);
        carry(&mut b, &mut a, datagram(B, A), false, now).unwrap();
        assert_eq!(a.counters().hygenicc.marks_heard, 1);
        carry(&mut b, &mut a, datagram(B, A), false, now).unwrap();
        assert_eq!(a.counters().hygenicc.marks_heard, 1, "once");
    }
}

#[test]
fn marks_travel_by_themselves_if_nothing_flows_back() {
    let (mut a, mut b) = (edge(config(A)), edge(config(B)));
    let now = Time::from_ms(1);
    for _ in 0..3 {
        carry(&mut a, &mut b, datagram(A, B), true, now).unwrap();
    }
    let due = b.poll_timeout().unwrap();
    assert_eq!(due, now + Time::from_us(200));
    b.handle_timeout(due);
    for value in [0, 3] {
        let made = b.poll_transmit(due).unwrap().packet;
        assert_eq!((made.proto, made.saddr, made.daddr, made.wire), (PROTO, B, A, version::TWO));
        let told = Feedback { kind: made.feedback, path: made.feedback_path, value: made.feedback_value };
        assert_eq!(told, Feedback { kind: MARKS, path: 0, value });
        assert_eq!(arrive(&mut a, made, told, false, due), None, "no guest gets it");
    }
    assert_eq!((a.counters().hygenicc.marks_heard, a.flow_count()), (3, 1));
    b.handle_timeout(due + Time::from_secs(1));
    assert_eq!(b.poll_transmit(due), None, "and once");
}

#[test]
fn a_packet_that_goes_back_leaves_nothing_to_say() {
    let (mut a, mut b) = (edge(config(A)), edge(config(B)));
    let now = Time::from_ms(1);
    greet(&mut a, &mut b, now);
    carry(&mut a, &mut b, datagram(A, B), true, now).unwrap();
    carry(&mut b, &mut a, datagram(B, A), false, now).unwrap();
    b.handle_timeout(now + Time::from_ms(100));
    assert_eq!((b.poll_transmit(now), b.counters().hygenicc.feedback_sent), (None, 0));
}

#[test]
fn a_dropped_packet_takes_no_feedback_along() {
    let (mut a, mut b) = (edge(config(A)), edge(config(B)));
    let now = Time::from_ms(1);
    greet(&mut a, &mut b, now);
    carry(&mut a, &mut b, datagram(A, B), true, now).unwrap();
    let huge = Packet { payload: 80_000, segment_size: 1000, ..datagram(B, A) };
    let mut dropped = huge;
    let verdict = b.process(now, Direction::Egress, Slot::default(), &mut dropped);
    assert_eq!(verdict, Verdict::Drop(DropReason::OverRate));
    assert_eq!(b.feedback_to(now, &datagram(B, A)).kind, NONE, "version 1 carries none");
    let next = Packet { wire: version::TWO, ..datagram(B, A) };
    assert_eq!(b.feedback_to(now, &next), Feedback { kind: MARKS, path: 0, value: 1 });
    assert_eq!(b.counters().hygenicc.dropped_segments, 1);
}

#[test]
fn strangers_are_left_alone() {
    let (mut a, mut b) = (edge(config(A)), edge(config(B)));
    let stranger = v4([10, 0, 0, 9]);
    let mut p = Packet { payload: 200_000, ..datagram(stranger, B) };
    assert_eq!(a.process(Time::ZERO, Direction::Egress, Slot::default(), &mut p), Verdict::Forward);
    assert_eq!((p.outer_ecn, a.pair_count()), (ecn::NOT_ECT, 0));
    let forged = Feedback { kind: MARKS, path: 9, value: 9 };
    assert!(arrive(&mut b, Packet { wire: version::TWO, ..datagram(stranger, B) }, forged, false, Time::ZERO).is_some());
    assert_eq!((b.pair_count(), b.counters().hygenicc.marks_heard), (0, 0));
}

#[test]
fn new_pairs_with_a_congested_destination_wait_until_it_is_well() {
    let other = v4([10, 0, 0, 3]);
    let guests = vec![(A, 1), (other, 1)];
    let (mut a, mut b) =
        (edge(Config { law: Law::Alpha, admission: Some((0.5, 0.25)), guests, ..config(A) }), edge(config(B)));
    let mut now = Time::from_ms(1);
    for _ in 0..40 {
        now += Time::from_us(500);
        assert!(carry(&mut a, &mut b, datagram(A, B), true, now).is_some());
        assert!(carry(&mut b, &mut a, datagram(B, A), false, now).is_some());
        a.handle_timeout(now);
    }
    assert!(carry(&mut a, &mut b, datagram(other, B), false, now).is_none(), "a new pair");
    assert!(carry(&mut a, &mut b, datagram(A, B), false, now).is_some(), "a known one");
    assert!(carry(&mut a, &mut b, datagram(other, v4([10, 0, 0, 4])), false, now).is_some(), "another destination");
    assert_eq!(a.counters().hygenicc.refused_segments, 1);
    now += Time::from_ms(20);
    assert!(carry(&mut a, &mut b, datagram(other, B), false, now).is_some(), "time heals");
}

#[test]
fn what_is_dropped_or_refused_leaves_no_state() {
    let mut a = edge(config(A));
    let huge =
        |to: u32| Packet { payload: 80_000, segment_size: 1000, ..datagram(A, v4([10, 9, (to >> 8) as u8, to as u8])) };
    for to in 0..1000 {
        let verdict = a.process(Time::ZERO, Direction::Egress, Slot::default(), &mut huge(to));
        assert_eq!(verdict, Verdict::Drop(DropReason::OverRate));
    }
    assert_eq!((a.flow_count(), a.pair_count()), (0, 0));
}

#[test]
fn a_guest_that_sends_ce_itself_is_not_marked() {
    let (mut a, mut b) = (edge(config(A)), edge(config(B)));
    let sent = Packet { ecn: ecn::CE, ..datagram(A, B) };
    let got = carry(&mut a, &mut b, sent, true, Time::from_ms(1)).unwrap();
    assert_eq!((got.ecn, b.counters().hygenicc.marks_counted), (ecn::CE, 0));
    assert_eq!(b.pair_count(), 0);
}

#[test]
fn feedback_for_nobody_is_consumed() {
    let mut b = edge(config(B));
    let told = Feedback { kind: MARKS, path: 0, value: 9 };
    let made = Packet { proto: PROTO, payload: 0, feedback: MARKS, ..datagram(A, v4([10, 0, 0, 9])) };
    let made = Packet { wire: version::TWO, ..made };
    assert_eq!(arrive(&mut b, made, told, false, Time::ZERO), None);
    assert_eq!((b.flow_count(), b.pair_count()), (0, 0));
}

#[test]
fn many_marks_are_told_at_once() {
    let (mut a, mut b) = (edge(config(A)), edge(config(B)));
    let now = Time::from_ms(1);
    greet(&mut a, &mut b, now);
    let segment = Packet { payload: 64_000, segment_size: 1000, ..datagram(A, B) };
    for n in 0..64 {
        assert_eq!(b.poll_transmit(now), None, "{n}");
        let marked = Packet { wire: version::TWO, outer_ecn: ecn::ECT0, ..segment };
        arrive(&mut b, marked, Feedback::default(), true, now).unwrap();
    }
    let made = b.poll_transmit(now).unwrap().packet;
    assert_eq!([made.feedback_path, made.feedback_value], 4096u16.to_be_bytes());
    assert_eq!(b.poll_transmit(now), None);
}

#[test]
fn strangers_marks_fill_no_table() {
    let mut b = edge(Config { max_pairs: 1000, ..config(B) });
    let stranger = |i: u32| v4([10, 1, (i >> 8) as u8, i as u8]);
    for i in 0..5000 {
        let p = Packet { wire: version::TWO, outer_ecn: ecn::ECT0, ..datagram(stranger(i), B) };
        arrive(&mut b, p, Feedback::default(), true, Time::ZERO);
    }
    assert_eq!(b.pair_count(), 200, "a fifth of the table");
    for i in 0..5000 {
        b.process(Time::from_us(20 * u64::from(i)), Direction::Egress, Slot::default(), &mut datagram(B, stranger(i)));
    }
    let answered = b.pair_count();
    assert!(answered < 500, "{answered}: answers to spoofed sources get less than half of it");
    let mut own = Packet { wire: version::TWO, proto: proto::TCP, tcp_flags: tcp::SYN, ..datagram(B, A) };
    b.process(Time::from_secs(1), Direction::Egress, Slot::default(), &mut own);
    assert_eq!((own.outer_ecn, b.pair_count()), (ecn::ECT0, answered + 1), "the guest's own pair has room");
    assert!(b.counters().hygenicc.pairs_full > 0);
}

#[test]
fn pairs_that_settle_make_room_for_others() {
    let mut b = edge(Config { max_pairs: 1000, ..config(B) });
    let client = |i: u32| v4([10, 1, (i >> 8) as u8, i as u8]);
    for i in 0..300 {
        let now = Time::from_us(20 * u64::from(i));
        let p = || Packet { wire: version::TWO, outer_ecn: ecn::ECT0, ..datagram(client(i), B) };
        arrive(&mut b, p(), Feedback::default(), true, now);
        b.process(now, Direction::Egress, Slot::default(), &mut datagram(B, client(i)));
        arrive(&mut b, p(), Feedback::default(), true, now);
    }
    assert_eq!(b.pair_count(), 300);
}

#[test]
fn idle_pairs_are_forgotten() {
    for (settled, last, gone) in [(false, 9, 10), (true, 59, 60)] {
        let mut a = edge(config(A));
        let mut send = |to: u8, now, back| {
            let to = v4([10, 9, 9, to]);
            for _ in 0..if back { 2 } else { 1 } {
                let mut p = Packet { wire: version::TWO, ..datagram(A, to) };
                a.process(now, Direction::Egress, Slot::default(), &mut p);
                if back {
                    arrive(&mut a, Packet { wire: version::TWO, ..datagram(to, A) }, Feedback::default(), true, now);
                }
            }
            a.pair_count()
        };
        assert_eq!((0..7).map(|to| send(to, Time::ZERO, settled)).last(), Some(7));
        assert_eq!(send(9, Time::from_secs(last), settled), 8, "settled: {settled}");
        assert_eq!(send(10, Time::from_secs(gone), settled), 2, "settled: {settled}");
    }
}

#[test]
fn an_idle_host_has_no_ticks() {
    let mut a = edge(config(A));
    let mut p = datagram(A, B);
    a.process(Time::ZERO, Direction::Egress, Slot::default(), &mut p);
    let mut ticks = 0;
    while let Some(due) = a.poll_timeout() {
        a.handle_timeout(due);
        ticks += 1;
    }
    assert_eq!(ticks, 2000, "500 us apart for a second");
    assert_eq!(a.share(&A).map(|share| share.active), Some(false));
}
