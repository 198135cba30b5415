//! Limiters on plain structs: numbers computed by hand.

use super::super::*;
use super::tests::{opened, segment, syn, Guarded, MSS};
use crate::vcc::{Class, Config, Law};
use units::Bytes;
use wire::{dirty, ecn, tcp};

fn limit(law: u8, backlog: u32) -> Limit {
    Limit { backlog, k1: 20_000, k2: 30_000, alpha: 512, beta: 512, law, ..Limit::default() }
}

/// SPRING's law as one ACK with segments of 1460 bytes applies it: the window and ssthresh after it, and the gradient.
fn spring(limit: &Limit, prev: u32, gradient: i32, window: u32) -> (u32, u32, i32) {
    let mut queue = LimitQueue { prev, gradient, begun: 1 };
    let mut ssthresh = 0;
    // SAFETY: valid references.
    unsafe {
        let gradient = sv_edge_limit_sample(&mut queue, limit);
        let window = sv_edge_spring_window(limit, gradient, 1460, window, &mut ssthresh);
        (window, ssthresh, gradient)
    }
}

/// Bytes after which a connection no longer counts as one that begins.
const OLD: u32 = 5 << 15;

#[test]
fn the_law_of_spring() {
    let at = |backlog| limit(LIMIT_SPRING, backlog);
    assert_eq!(spring(&at(10_000), 10_000, 0, 14_600), (16_060, 0, 0));
    assert_eq!(spring(&at(20_000), 20_000, 0, 14_600), (16_060, 0, 0), "exactly K1, and it does not grow");
    assert_eq!(spring(&at(25_000), 20_000, 0, 16_000), (15_000, 0, 2500));
    assert_eq!(spring(&at(40_000), 40_000, 0, 16_000), (14_000, 16_000, 0));
    assert_eq!(spring(&at(30_000), 30_000, 0, 16_000), (17_460, 0, 0), "exactly K2");
    assert_eq!(spring(&at(30_000), 40_000, 0, 16_000), (17_460, 0, -5000));
    assert_eq!(spring(&at(120_000), 120_000, 0, 1500), (1460, 1500, 0), "never below a segment");
    let steep = Limit { k1: 5000, k2: 50_000, ..at(25_000) };
    assert_eq!(spring(&steep, 25_000, 40_000, 16_000), (1460, 0, 20_000), "a cut of more than all");
    assert_eq!(spring(&at(19_999), 0, 0, 16_000).0, 17_460, "below K1 the gradient does not matter");
    assert_eq!(spring(&Limit { beta: 0, ..at(u32::MAX) }, 0, 0, 16_000).0, 16_000);
    assert_eq!(spring(&Limit { k1: 0, k2: 0, ..at(u32::MAX) }, 0, i32::MAX, u32::MAX).0, 1 << 29);
}

#[test]
fn where_some_go_first_no_flow_has_much_more_or_less_than_its_share() {
    let at = |backlog, flows| Limit { flows, ..limit(LIMIT_SPRING, backlog) };
    // SAFETY: a valid reference.
    let share = |l: Limit, before, after| unsafe { sv_edge_spring_even(&l, OLD, 1460, before, after) };
    assert_eq!(share(at(50_000, 0), 40_000, 20_000), 20_000, "where nobody goes first the law is as printed");
    assert_eq!(share(at(50_000, 3), 5_000, 2_920), 6_460, "below 10,000 it grows whatever waits");
    assert_eq!(share(at(50_000, 3), 9_500, 2_920), 10_000, "to the share");
    assert_eq!(share(at(50_000, 3), 14_000, 2_920), 10_000, "and is not cut below it");
    assert_eq!(share(at(50_000, 3), 13_000, 12_000), 12_000);
    assert_eq!(
        share(at(15_000, 3), 21_000, 22_460),
        19_540,
        "more than four thirds of a share shrink, though the law lets it grow"
    );
    assert_eq!([13_300, 13_400].map(|before| share(at(15_000, 3), before, before + 1460)), [14_760, 11_940]);
    assert_eq!(share(at(10_000, 3), 21_000, 22_460), 22_460, "unless the queue is short");
    assert_eq!(share(at(50_000, 65_535), 2_920, 1_460), 1_460, "of very many flows the share is next to nothing");
}

#[test]
fn a_connection_that_begins_has_three_shares() {
    let even = |backlog, flows, had, before, after| {
        let l = Limit { flows, ..limit(LIMIT_SPRING, backlog) };
        // SAFETY: a valid reference.
        unsafe { sv_edge_spring_even(&l, had, 1460, before, after) }
    };
    // K2 is 30,000: of ten flows each has 3,000.
    assert_eq!(even(95_535, 10, 0, 9_000, 2_920), 9_000);
    assert_eq!(even(95_535, 10, OLD - 1, 9_000, 2_920), 9_000);
    assert_eq!(even(95_535, 10, OLD, 6_000, 2_920), 3_000, "until it has had 160 KB");
    let fast = |rate, had| {
        let l = Limit { flows: 10, rate, ..limit(LIMIT_SPRING, 95_535) };
        // SAFETY: a valid reference.
        unsafe { sv_edge_spring_even(&l, had, 1460, 9_000, 2_920) == 9_000 }
    };
    let mbps = 125;
    for (rate, until) in [(300 * mbps, OLD), (1000 * mbps, 500_000), (4000 * mbps, 512 << 10), (u32::MAX, 512 << 10)] {
        assert_eq!(
            [until - 1, until].map(|had| fast(rate, had)),
            [true, false],
            "{rate} bytes/ms: what they bring in 4 ms, up to 512 KB"
        );
    }
    assert_eq!(even(95_536, 10, 0, 6_000, 2_920), 3_000, "and unless the queue is long");
    assert_eq!(even(95_535, 1, 0, 60_000, 2_920), 30_000, "K2 at most");
    assert_eq!(even(95_535, 0, 0, 9_000, 2_920), 2_920, "where nobody goes first the law is as printed");
}

#[test]
fn thresholds_grow_with_the_flows_that_others_pass() {
    let widened = |law, k2, flows, rate| {
        let mut limit = Limit { flows, k2, ..limit(law, 0) };
        widen(&mut limit, rate);
        (limit.k1, limit.k2)
    };
    let (mbps, gbps) = (125_000, 125_000_000);
    assert_eq!(widened(LIMIT_SPRING, 30_000, 0, gbps), (20_000, 30_000));
    assert_eq!(widened(LIMIT_SPRING, 30_000, 1, 100 * mbps), (20_000, 30_000), "one has enough");
    assert_eq!(widened(LIMIT_SPRING, 30_000, 8, 100 * mbps), (131_072, 141_072));
    assert_eq!(widened(LIMIT_DEM, 0, 8, 100 * mbps), (131_072, 0));
    assert_eq!(widened(LIMIT_SPRING, 30_000, 8, gbps), (256_000, 266_000), "256 us of the rate each");
    for rate in [3, 10, 100_000] {
        assert_eq!(widened(LIMIT_SPRING, 30_000, 8, rate * gbps), (524_288, 534_288), "a large segment at most");
    }
    assert_eq!(widened(LIMIT_SPRING, 30_000, 1000, gbps), (6_250_000, 6_260_000), "50 ms at the rate");
    assert_eq!(widened(LIMIT_SPRING, 30_000, 1000, 4 * gbps).0, 8 << 20, "half of the largest queue");
    assert_eq!(widened(LIMIT_SPRING, 30_000, u16::MAX, 100_000 * gbps).0, 8 << 20);
    assert_eq!(widened(LIMIT_SPRING, 30_000, u16::MAX, 1000), (131_072, 141_072), "which a short queue takes, too");
}

#[test]
fn the_gradient_is_smoothed_and_forgotten() {
    let mut queue = LimitQueue::default();
    let mut sample = |backlog| {
        // SAFETY: valid references.
        unsafe { sv_edge_limit_sample(&mut queue, &limit(LIMIT_SPRING, backlog)) }
    };
    assert_eq!(sample(50_000), 0, "the first packet only begins");
    assert_eq!([sample(60_000), sample(60_000), sample(50_000)], [5000, 2500, -3750]);
    let mut last = sample(51_000);
    for _ in 0..40 {
        last = sample(51_000);
    }
    assert!(last <= 0 && last > -2, "{last}");
    assert_eq!([sample(u32::MAX), sample(0)].map(i32::signum), [1, -1]);
}

/// A connection whose guest fills its window, under SPRING; `window` is the one in force.
fn filled(class: Class, scale: u8, window: u32) -> Guarded {
    let mut edge = followed(class, scale);
    edge.out(segment(tcp::ACK, 1, 1001, 60_000));
    edge.vcc.bound.spring = window;
    edge.queue = LimitQueue::default();
    edge
}

/// A connection that goes through SPRING from its beginning.
fn followed(class: Class, scale: u8) -> Guarded {
    let mut edge = Guarded::new(&Config::new(class));
    edge.limit = Some(limit(LIMIT_SPRING, 0));
    edge.open(1, Some(scale));
    edge
}

/// The field that the guest gets when an ACK that announces `field` finds that backlog.
fn field(edge: &mut Guarded, backlog: u32, field: u16) -> u16 {
    edge.limit = Some(limit(LIMIT_SPRING, backlog));
    let ack = edge.vcc.conn.snd_una.wrapping_add(100);
    edge.come(Packet { window: field, ..segment(tcp::ACK, 1001, ack, 0) }).1.window
}

#[test]
fn windows_are_written_as_fields() {
    let grown = |scale, window: u32, advertised| field(&mut filled(Class::OFF, scale, window - MSS), 0, advertised);
    assert_eq!(grown(7, 15_000, 500), 117);
    assert_eq!(grown(7, 15_000, 100), 100, "never raised");
    assert_eq!(grown(7, 15_000, 0), 0, "nor opened");
    let cut = |scale, advertised| field(&mut filled(Class::OFF, scale, 1), 1 << 20, advertised);
    assert_eq!((cut(0, 40_000), cut(10, 500), cut(14, 500), cut(14, 1)), (2 * MSS as u16, 2, 1, 1), "two segments");
}

#[test]
fn the_window_begins_at_ten_segments_and_ends_at_what_the_peer_announces() {
    let mut edge = filled(Class::OFF, 7, 0);
    assert_eq!(field(&mut edge, 25_000, 500), ((11 * MSS) >> 7) as u16);
    assert_eq!(edge.vcc.bound.spring, 11 * MSS);
    field(&mut edge, 0, 100);
    assert_eq!(edge.vcc.bound.spring, 100 << 7);
    field(&mut edge, 0, 0);
    assert_eq!(edge.vcc.bound.spring, MSS);
}

#[test]
fn what_a_guest_does_not_use_it_does_not_get() {
    let mut edge = followed(Class::OFF, 7);
    for n in 0..1000 {
        edge.out(segment(tcp::ACK, 1 + n * 100, 1001, 100));
        field(&mut edge, 0, 60_000);
    }
    assert!(edge.vcc.bound.spring <= 11 * MSS, "{}", edge.vcc.bound.spring);
    let mut edge = filled(Class::OFF, 7, 0);
    for _ in 0..1000 {
        edge.vcc.conn.snd_una = 1;
        field(&mut edge, 0, 60_000);
    }
    assert!((120_000..=120_000 + MSS).contains(&edge.vcc.bound.spring), "twice what was outstanding");
}

/// The window after an ACK of so many packets, which finds that backlog.
fn after_ack_of(packets: u32, backlog: u32) -> u32 {
    let mut edge = filled(Class::OFF, 7, 50_000);
    edge.limit = Some(limit(LIMIT_SPRING, backlog));
    edge.come(Packet { window: 60_000, ..segment(tcp::ACK, 1001, 1 + packets * MSS, 0) });
    edge.vcc.bound.spring
}

#[test]
fn an_ack_of_many_packets_is_one_ack() {
    for packets in [1, 11, 41] {
        assert_eq!([after_ack_of(packets, 19_999), after_ack_of(packets, 30_000)], [50_000 + MSS; 2]);
        assert_eq!(after_ack_of(packets, 40_000), 50_000 - 50_000 / 4 / 2);
    }
}

#[test]
fn outgoing_packets_move_the_gradient_only() {
    let mut edge = filled(Class::OFF, 7, 50_000);
    edge.limit = Some(limit(LIMIT_SPRING, 0));
    edge.out(segment(tcp::ACK, 60_001, 1001, 1000));
    edge.limit = Some(limit(LIMIT_SPRING, 8000));
    let (result, seen) = edge.out(segment(tcp::ACK, 61_001, 1001, 1000));
    assert_eq!((edge.queue.prev, edge.queue.gradient), (8000, 4000));
    assert_eq!((edge.vcc.bound.spring, seen.dirty, result & LIMITED), (50_000, 0, 0));
}

#[test]
fn syns_keep_their_windows_and_duplicates_repeat_theirs() {
    let mut edge = Guarded::new(&Config::new(Class::OFF));
    edge.limit = Some(limit(LIMIT_SPRING, 1 << 20));
    edge.out(syn(tcp::SYN, 0, 0, Some(7)));
    let (result, seen) = edge.come(syn(tcp::SYN | tcp::ACK, 1000, 1, Some(7)));
    assert_eq!((seen.window, seen.dirty & dirty::WINDOW, result & LIMITED), (65_535, 0, 0));
    edge.out(segment(tcp::ACK, 1, 1001, 60_000));
    let first = field(&mut edge, 1 << 20, 500);
    let una = edge.vcc.conn.snd_una;
    for backlog in [0, 0, 1 << 20] {
        edge.limit = Some(limit(LIMIT_SPRING, backlog));
        assert_eq!(edge.come(segment(tcp::ACK, 1001, una, 0)).1.window, first);
    }
    assert_eq!(edge.vcc.conn.dupacks, 3);
    assert_ne!(field(&mut edge, 0, 500), first, "the next that acknowledges something tells the new window");
}

#[test]
fn a_cut_is_told() {
    let mut edge = filled(Class::OFF, 7, 50_000);
    edge.limit = Some(limit(LIMIT_SPRING, 40_000));
    assert_eq!(edge.come(segment(tcp::ACK, 1001, 101, 0)).0 & LIMITED, LIMITED);
    edge.limit = Some(limit(LIMIT_SPRING, 0));
    assert_eq!(edge.come(segment(tcp::ACK, 1001, 201, 0)).0 & LIMITED, 0);
}

#[test]
fn without_a_limiter_nothing_is_left_of_its_window() {
    let mut edge = filled(Class::OFF, 7, 1);
    field(&mut edge, 1 << 20, 500);
    edge.limit = None;
    assert_eq!(edge.ack(301, 500).window, 500);
    assert_eq!(edge.vcc.bound.spring, 0);
    let mut edge = filled(Class::OFF, 7, 1);
    edge.limit = Some(limit(LIMIT_DEM, 0));
    assert_eq!(edge.ack(301, 500).window, 500);
}

#[test]
fn flows_that_are_nobodys_business_are_followed_for_a_limiter_only() {
    let mut edge = Guarded::new(&Config::new(Class::OFF));
    edge.open(1, Some(7));
    edge.out(segment(tcp::ACK, 1, 1001, 5000));
    assert_eq!((edge.vcc.conn.snd_nxt, edge.vcc.conn.mss), (0, 536), "begun anew with every segment");
    edge.forget();
    edge.limit = Some(limit(LIMIT_SPRING, 0));
    edge.open(1, Some(7));
    let (_, wire) = edge.out(Packet { ecn: ecn::NOT_ECT, ..segment(tcp::ACK, 1, 1001, 5000) });
    assert_eq!((edge.vcc.conn.snd_nxt, edge.vcc.conn.mss), (5001, MSS as u16));
    assert_eq!((wire.ecn, wire.tcp_reserved, wire.pack), (ecn::NOT_ECT, 0, 0), "and sent as they are");
}

#[test]
fn the_smaller_of_two_windows_wins() {
    let clamp = |bytes| Class { law: Law::None, clamp: Some(Bytes(bytes)), ..Class::default() };
    assert_eq!(field(&mut filled(clamp(12_800), 7, 50_000), 25_000, 500), 100, "the clamp");
    assert_eq!(field(&mut filled(clamp(50_000), 7, 12_800 - MSS), 0, 500), 100, "the limiter");
    let observed = Class { observe: true, ..clamp(12_800) };
    assert_eq!(field(&mut filled(observed, 7, 25_600 - MSS), 0, 500), 200, "who only observes enforces nothing");
}

/// The ECE flag that a guest gets with an ACK, and whether the stages say that they acted.
fn ece(class: Class, backlog: u32, ect: bool, packet: Packet) -> (bool, bool) {
    let mut edge = Guarded::new(&Config::new(class));
    edge.limit = Some(limit(LIMIT_DEM, backlog));
    edge.open(1, Some(7));
    edge.out(Packet { ecn: if ect { ecn::ECT0 } else { ecn::NOT_ECT }, ..segment(tcp::ACK, 1, 1001, 5000) });
    let (result, seen) = edge.hear(packet);
    assert_eq!(seen.dirty & dirty::FLAGS != 0, seen.tcp_flags != packet.tcp_flags || seen.tcp_reserved == 0);
    (seen.tcp_flags & tcp::ECE != 0, result & LIMITED != 0)
}

#[test]
fn direct_ece_marking() {
    let ack = segment(tcp::ACK, 1001, 101, 0);
    let marked = Packet { tcp_flags: tcp::ACK | tcp::ECE, ..ack };
    let off = |backlog, packet| ece(Class::OFF, backlog, true, packet);
    assert_eq!([off(20_000, ack), off(20_001, ack)], [(false, false), (true, true)], "strictly above K");
    assert_eq!([off(0, marked), off(20_001, marked)], [(true, false), (true, false)], "never cleared");
    assert!(off(1 << 20, Packet { payload: 100, ..ack }).0, "data that acknowledges counts too");
    for flags in [tcp::SYN | tcp::ACK, tcp::RST | tcp::ACK, tcp::PSH] {
        assert!(!off(1 << 20, Packet { tcp_flags: flags, ..ack }).0, "{flags:x}");
    }
    assert!(!ece(Class::OFF, 1 << 20, false, ack).0, "the guest does not know ECN");
    assert_eq!(ece(Class::default(), 1 << 20, true, ack), (true, true), "after AC/DC has hidden the network's");
    assert_eq!(ece(Class::default(), 0, true, marked), (false, false));
}

#[test]
fn the_strawman_marks_segments() {
    let mark = |backlog, codepoint| {
        let mut edge = opened(&Config::new(Class::OFF));
        edge.limit = Some(limit(LIMIT_ECN, backlog));
        let data = Packet { ecn: codepoint, payload: 60_000, segment_size: 1448, ..segment(tcp::ACK, 1, 1001, 0) };
        let (result, seen) = edge.out(data);
        assert_eq!(seen.ecn != codepoint, result & LIMITED != 0);
        seen.ecn
    };
    assert_eq!([mark(20_000, ecn::ECT0), mark(20_001, ecn::ECT0)], [ecn::ECT0, ecn::CE]);
    assert_eq!([mark(1 << 20, ecn::NOT_ECT), mark(1 << 20, ecn::ECT1)], [ecn::NOT_ECT, ecn::CE]);
    let mut edge = opened(&Config::default());
    edge.limit = Some(limit(LIMIT_ECN, 1 << 20));
    assert_eq!(edge.out(segment(tcp::ACK, 1, 1001, 5000)).1.ecn, ecn::CE, "AC/DC made it ECN-capable");
}

#[test]
fn a_limiter_by_departure_times() {
    const RATE: u64 = 125_000_000;
    let mut next = 0;
    // SAFETY: the mirror of a struct of one u64; borrowed for the calls.
    let backlog = |next: &u64, rate, now| unsafe { sv_edge_pacer_backlog(next, rate, now) };
    // SAFETY: as above.
    let mut take = |bytes, rate, now| unsafe { (sv_edge_pacer_take(&mut next, rate, bytes, now), next) };
    assert_eq!(take(125_000, RATE, 5000), (5000, 1_005_000));
    assert_eq!(take(125_000, RATE, 5000), (1_005_000, 2_005_000));
    assert_eq!([backlog(&2_005_000, RATE, 5000), backlog(&2_005_000, RATE, 1_505_000)], [250_000, 62_500]);
    assert_eq!(backlog(&2_005_000, RATE, 9_000_000), 0);
    assert_eq!(take(1000, RATE, 9_000_000).0, 9_000_000, "idleness is not saved up");
    assert_eq!(take(1000, 0, 9_500_000), (9_500_000, 9_500_000), "no rate, no limit");
    assert_eq!(backlog(&u64::MAX, 18_000_000_000, 0), 1 << 30);
}

#[test]
fn a_schedule_takes_no_more_than_its_horizon() {
    const RATE: u64 = 125_000_000;
    let (mut next, mut at) = (0, 0);
    let mut admit = |bytes, now| {
        // SAFETY: the mirror of a struct of one u64, and another u64; borrowed for the calls.
        let taken = unsafe { sv_edge_pacer_admit(&mut next, RATE, 2_000_000, bytes, now, &mut at) } != 0;
        (taken, at, next)
    };
    assert_eq!(admit(250_000, 1000), (true, 1000, 2_001_000));
    assert_eq!(admit(125_000, 1000), (true, 2_001_000, 3_001_000), "exactly the horizon ahead");
    assert_eq!(admit(1, 1000), (false, 2_001_000, 3_001_000), "nothing changes");
    assert_eq!(admit(125, 1_001_000), (true, 3_001_000, 3_002_000), "time makes room");
}

#[test]
fn every_packet_of_a_segment_counts_its_headers() {
    let segment = |payload, segment_size, family, l4_header_len| {
        let ip_header_len = if family == 4 { 20 } else { 40 };
        let packet = Packet { payload, segment_size, family, ip_header_len, l4_header_len, ..Packet::default() };
        // SAFETY: a valid reference.
        unsafe { sv_edge_limit_bytes(&packet, 14 + u32::from(ip_header_len + l4_header_len) + payload) }
    };
    assert_eq!(segment(1448, 0, 4, 32), 1514);
    assert_eq!(segment(1448, 1448, 4, 32), 1514);
    assert_eq!(segment(1449, 1448, 4, 32), 1515 + 66);
    assert_eq!(segment(10 * 1428, 1428, 6, 32), 10 * 1514);
    assert_eq!(segment(3000, 1000, 4, 8), 3 * 1042);
    assert_eq!(segment(0, 0, 4, 20), 54);
}
