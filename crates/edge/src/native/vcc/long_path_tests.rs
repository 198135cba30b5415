//! SPRING over long paths, where some flows go past the queue: numbers computed by hand.

use super::super::*;
use super::tests::{segment, Edge, MSS};
use super::Conn;
use crate::vcc::{Class, Config};
use units::Time;
use wire::tcp;

/// 1 Gb/s.
const RATE: u32 = 125_000;
/// 20 ms in units of 2^14 ns, and what a limit of 1 Gb/s sends in it, with 64 KiB.
const FAR: u16 = 1220;
const FAR_BYTES: u32 = 2_564_096;
/// What a lone connection that begins may have in the queue: three shares, here of half of K2.
const YOUNG: u32 = 45_000;

fn limit(backlog: u32, flows: u16) -> Limit {
    let rate = if flows > 0 { RATE } else { 0 };
    Limit { backlog, k1: 20_000, k2: 30_000, alpha: 512, beta: 512, law: LIMIT_SPRING, flows, rate, ..Limit::default() }
}

fn opened(flows: u16) -> Edge {
    let mut edge = Edge::new(&Config::new(Class::OFF));
    edge.limit = Some(limit(0, flows));
    edge.open(1, Some(7));
    edge
}

/// The guest sends 60,000 bytes, with headers 63,750, when `backlog` bytes wait. From when the last of them leaves, the ACK takes as long as `path`.
fn round(edge: &mut Edge, backlog: u32, path: Time) {
    let flows = edge.limit.unwrap().flows;
    edge.limit = Some(limit(backlog, flows));
    let from = edge.vcc.conn.snd_nxt;
    edge.out(segment(tcp::ACK, from, 1001, 60_000));
    acked(edge, from + 60_000, path + Time::from_us(u64::from(backlog + 63_750) / 125));
}

/// An ACK that announces 7.68 MB finds nothing that waits.
fn acked(edge: &mut Edge, ack: u32, after: Time) {
    edge.now += after;
    edge.limit = Some(Limit { backlog: 0, ..edge.limit.unwrap() });
    edge.come(Packet { window: 60_000, ..segment(tcp::ACK, 1001, ack, 0) });
}

#[test]
fn a_long_path_adds_what_it_holds_without_the_wait_in_the_limiter() {
    let mut edge = opened(1);
    round(&mut edge, 125_000, Time::from_ms(20));
    let bound = edge.vcc.bound;
    assert_eq!((bound.spring_wait, bound.spring_base, bound.spring), (92, FAR, FAR_BYTES + YOUNG));
    edge.limit = Some(limit(1 << 20, 1));
    edge.come(Packet { window: 60_000, ..segment(tcp::ACK, 1001, edge.vcc.conn.snd_una, 0) });
    assert!(edge.vcc.bound.spring >= FAR_BYTES, "a queue of a burst does not cut below it");
    edge.come(Packet { window: 1000, ..segment(tcp::ACK, 1001, edge.vcc.conn.snd_una, 0) });
    assert_eq!(edge.vcc.bound.spring, 128_000, "never more than the peer announces");
}

#[test]
fn of_a_path_that_is_not_much_longer_than_a_near_one_a_part_counts() {
    let mut edge = opened(1);
    round(&mut edge, 0, Time::from_us(328)); // 20 units: 77,680 ns beyond 250 us, twice, and 20,363 bytes of a segment
    assert_eq!((edge.vcc.bound.spring_base, edge.vcc.bound.spring), (20, 39_783 + YOUNG + MSS));
}

#[test]
fn flows_share_what_the_path_holds() {
    let mut edge = opened(4);
    round(&mut edge, 0, Time::from_ms(20));
    assert_eq!(edge.vcc.bound.spring, FAR_BYTES / 4 + YOUNG / 2);
}

#[test]
fn near_paths_and_the_law_as_printed_stay_as_they_are() {
    for (flows, took, base) in [(1, Time::from_us(240), 14), (0, Time::from_ms(20), 0)] {
        let mut edge = opened(flows);
        round(&mut edge, 0, took);
        assert_eq!(edge.vcc.bound.spring_base, base);
        let share = if flows > 0 { YOUNG } else { 10 * MSS };
        assert!((share..=share + MSS).contains(&edge.vcc.bound.spring), "{}", edge.vcc.bound.spring);
    }
}

#[test]
fn the_shortest_round_trip_counts_and_a_longer_path_by_and_by() {
    let mut edge = opened(1);
    let mut base = |took: u64| {
        round(&mut edge, 0, Time::from_ms(took));
        edge.vcc.bound.spring_base
    };
    assert_eq!([base(20), base(5), base(20)], [FAR, 305, 305 + (FAR - 305).div_ceil(32)]);
    let mut last = 0;
    for _ in 0..300 {
        last = base(20);
    }
    assert_eq!(last, FAR);
    assert_eq!(base(4000), FAR + FAR / 8 + 1, "an eighth more at once");
}

#[test]
fn what_is_sent_again_is_not_timed() {
    let mut edge = opened(1);
    let from = edge.vcc.conn.snd_nxt;
    edge.out(segment(tcp::ACK, from, 1001, 60_000));
    edge.out(segment(tcp::ACK, from, 1001, 60_000));
    acked(&mut edge, from + 60_000, Time::from_ms(20));
    assert_eq!(edge.vcc.bound.spring_base, 0);
}

#[test]
fn what_goes_first_does_not_wait() {
    let mut edge = opened(1);
    edge.limit = Some(Limit { flags: LIMIT_GOES_FIRST, ..limit(125_000, 1) });
    let from = edge.vcc.conn.snd_nxt;
    edge.out(segment(tcp::ACK, from, 1001, 60_000));
    acked(&mut edge, from + 60_000, Time::from_ms(20));
    assert_eq!((edge.vcc.bound.spring_wait, edge.vcc.bound.spring_base), (0, FAR));
}

/// `struct sv_far`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Beyond {
    edge: u32,
    since: u32,
    took: u16,
    pad: u16,
}
const _: () = assert!(size_of::<Beyond>() == 12);

extern "C" {
    fn sv_edge_far_out(f: *mut Beyond, p: *const Packet, now: u64);
    fn sv_edge_far_in(f: *mut Beyond, t: *const Conn, edge: u32, now: u64);
}

impl Beyond {
    /// An ACK moves what may be sent up to from `edge` to `granted`.
    fn ack(&mut self, [edge, granted]: [u32; 2], ms: u64) {
        let conn = Conn { granted, ..Conn::default() };
        // SAFETY: valid references.
        unsafe { sv_edge_far_in(self, &conn, edge, ms * 1_000_000) }
    }

    fn segment(&mut self, flags: u8, [from, to]: [u32; 2], ms: u64) {
        // SAFETY: valid references.
        unsafe { sv_edge_far_out(self, &segment(flags, from, 0, to - from), ms * 1_000_000) }
    }
}

#[test]
fn beyond_the_limit_an_ack_is_timed_until_what_it_allowed_arrives() {
    let mut far = Beyond::default();
    far.ack([8_000, 8_000], 1000);
    assert_eq!(far, Beyond::default(), "an ACK that allows nothing");
    far.ack([8_000, 10_000], 1000);
    far.ack([10_000, 12_000], 1001);
    far.segment(tcp::ACK, [6_000, 8_000], 1002);
    far.segment(tcp::ACK, [8_000, 8_000], 1003);
    assert_eq!((far.edge, far.took), (8_000, 0), "the first is timed, and what was allowed before it says nothing");
    far.segment(tcp::ACK, [7_000, 8_001], 1020);
    assert_eq!((far.since, far.took), (0, 1220));
    far.ack([10_000, 12_000], 1030);
    far.segment(tcp::ACK, [10_000, 12_000], 1035);
    assert_eq!(far.took, 305, "the least");
    far.ack([12_000, 14_000], 1040);
    far.segment(tcp::ACK, [12_000, 14_000], 1090);
    assert_eq!(far.took, 305 + 305 / 8 + 1, "more by and by");
    far.ack([14_000, 16_000], 2000);
    far.segment(tcp::ACK, [14_000, 16_000], 9000);
    assert_eq!((far.since, far.took), (0, 344), "somebody had nothing to send");
    far.ack([16_000, 18_000], 9001);
    far.segment(tcp::SYN, [0, 0], 9002);
    assert_eq!(far, Beyond::default(), "another connection");
}
