//! Tests of `oneway.h`: latenesses without a common clock, and what flows and weights make of them.

use super::paths::OneWay;
use super::PathState;
use crate::{Balance, Config, Direction, Edge, Slot};
use proptest::prelude::*;
use std::collections::BTreeMap;
use units::Time;
use wire::feedback::Feedback;
use wire::{ecn, proto, tcp, v4, version, Packet};

extern "C" {
    fn sv_edge_oneway_arrived(o: *mut OneWay, stamp: u16, tick: u32) -> u32;
    fn sv_edge_oneway_code(late: u32, epoch: u8) -> u8;
    fn sv_edge_oneway_late(code: u8) -> u32;
    fn sv_edge_oneway_told(path: *mut PathState, n: u32, at: u32, code: u8, tick: u32);
    fn sv_edge_oneway_gap(path: *const PathState, n: u32, at: u32, least: u32, most: u32, tick: u32) -> u32;
}

/// `SV_ONEWAY_MOST`
const MOST: u32 = 0x7fff;
/// `SV_ONEWAY_WINDOW`
const WINDOW: u32 = 1 << 20;
/// `SV_ONEWAY_PATHS`
const PATHS: usize = 64;

impl OneWay {
    /// Left at `left` by a clock that is `ahead` ticks ahead of ours, and took so long.
    fn arrived(&mut self, left: u32, took: u32, ahead: u32) -> u32 {
        let stamp = (left.wrapping_add(ahead) as u16).max(1);
        // SAFETY: writes one struct, whose mirror asserts the layout.
        unsafe { sv_edge_oneway_arrived(self, stamp, left.wrapping_add(took)) }
    }
}

fn code(late: u32, epoch: u8) -> u8 {
    // SAFETY: a function of two numbers.
    unsafe { sv_edge_oneway_code(late, epoch) }
}

fn late(code: u8) -> u32 {
    // SAFETY: as above.
    unsafe { sv_edge_oneway_late(code) }
}

fn told(paths: &mut [PathState; PATHS], n: usize, at: u32, code: u8, tick: u32) {
    // SAFETY: `paths` has room for SV_ONEWAY_PATHS; `at` and `n` may be anything.
    unsafe { sv_edge_oneway_told(paths.as_mut_ptr(), n as u32, at, code, tick) }
}

fn gap(paths: &[PathState; PATHS], n: usize, at: u32, (least, most): (u32, u32), tick: u32) -> u32 {
    // SAFETY: as in `told`.
    unsafe { sv_edge_oneway_gap(paths.as_ptr(), n as u32, at, least, most, tick) }
}

#[test]
fn a_lateness_is_told_within_an_eighth() {
    for value in 0..=MOST {
        for epoch in [0, 1] {
            let code = code(value, epoch);
            assert_eq!(code >> 7, epoch);
            let read = late(code);
            assert!(read <= value && value <= read + read / 8, "{value} {read}");
        }
    }
    assert_eq!(code(u32::MAX, 0), code(MOST, 0));
    assert!((0..=255).all(|any| late(any) <= MOST));
}

#[test]
fn what_is_least_is_forgotten_after_two_windows_and_begins_an_epoch() {
    let mut oneway = OneWay::default();
    assert_eq!([oneway.arrived(1000, 50, 7), oneway.arrived(1100, 80, 7)], [0, 30]);
    let first = oneway.epoch;
    assert_eq!(oneway.arrived(1200, 40, 7), 0);
    assert_ne!(oneway.epoch, first, "earlier latenesses are of more than 40");
    let second = oneway.epoch;
    assert_eq!(oneway.arrived(1000 + WINDOW + 100, 90, 7), 50, "the window before still counts");
    assert_eq!(oneway.epoch, second);
    assert_eq!(oneway.arrived(1000 + 2 * WINDOW + 200, 95, 7), 5, "no more");
    assert_ne!(oneway.epoch, second);
    // A peer that was silent for long.
    assert_eq!(oneway.arrived(1000 + 9 * WINDOW, 3000, 7), 0);
    // A clock that was set by 30 ms: for two windows everything is late.
    assert_eq!(oneway.arrived(2000 + 9 * WINDOW, 3000, 7u32.wrapping_sub(29_297)), 29_297);
}

#[test]
fn the_gap_is_the_least_and_the_lead_of_other_paths() {
    let mut paths = [PathState::default(); PATHS];
    let bounds = (10, 500);
    assert_eq!(gap(&paths, 3, 0, bounds, 50), 500, "nothing is known");
    told(&mut paths, 3, 0, code(96, 1), 40);
    told(&mut paths, 3, 1, code(32, 1), 40);
    assert_eq!(gap(&paths, 3, 0, bounds, 50), 500, "of the third nothing was heard: it may be the earliest");
    told(&mut paths, 3, 2, code(64, 1), 40);
    let late = paths[0];
    told(&mut paths, 3, 0, code(96, 1), 40 + 2000);
    assert_eq!(
        gap(&paths, 3, 0, bounds, 2041),
        10 + 96 + 12,
        "what was known of the others is old, and 96 stands for up to 103"
    );
    paths[0] = late;
    assert_eq!(gap(&paths, 3, 0, bounds, 50), 10 + 96 + 12 - 32);
    assert_eq!(gap(&paths, 3, 1, bounds, 50), 10, "it is the earliest");
    told(&mut paths, 3, 0, code(8000, 1), 40);
    assert_eq!(gap(&paths, 3, 0, bounds, 50), 500, "never longer");
    assert_eq!(gap(&paths, 3, 1, bounds, 40 + 4 * 500 + 1), 500, "known long ago");
    assert_eq!(gap(&paths, 1, 0, bounds, 50), 10, "there is no other");
    assert_eq!([gap(&paths, 3, 3, bounds, 50), gap(&paths, 3, 64, bounds, 50)], [500, 500], "no path");
    // Another epoch: what was told of the others is of another least.
    told(&mut paths, 3, 1, code(0, 0), 45);
    assert_eq!([0, 1, 2].map(|at| paths[at].epoch), [2, 0, 2]);
    assert_eq!([gap(&paths, 3, 0, bounds, 50), gap(&paths, 3, 1, bounds, 50)], [500, 10]);
    told(&mut paths, 3, 0, code(90, 0), 45);
    assert_eq!(gap(&paths, 3, 0, bounds, 50), 10 + 88 + 11, "as old ones say nothing");
}

const LABELS: [u16; 4] = [0xc001, 0xc002, 0xc003, 0xc004];

/// Two hosts, paths between them of constant delay, and a clock at the second one that is ahead.
struct Pair {
    here: Edge,
    there: Edge,
    delays_us: [u64; 4],
    ahead: Time,
}

fn segment(from: u8, to: u8, payload: u32) -> Packet {
    Packet {
        saddr: v4([10, 0, 0, from]),
        daddr: v4([10, 0, 0, to]),
        sport: u16::from(from),
        dport: u16::from(to),
        payload,
        proto: proto::TCP,
        family: 4,
        tcp_flags: tcp::ACK,
        window: 1000,
        ip_header_len: 20,
        l4_header_len: 20,
        ..Packet::default()
    }
}

impl Pair {
    fn new(balance: &str, delays_us: [u64; 4], ahead: Time) -> Pair {
        let edge = || {
            let mut edge = Edge::new(Config { balance: balance.parse().unwrap(), ..Config::default() });
            edge.set_default_schedule(&LABELS);
            edge
        };
        Pair { here: edge(), there: edge(), delays_us, ahead }
    }

    /// A segment leaves the first host at `now`. Returns it, what it carries, and when it arrives by the same clock.
    fn send(&mut self, now: Time) -> (Packet, Feedback, Time) {
        let mut data = Packet { wire: self.here.wire(), ..segment(1, 2, 1000) };
        self.here.process(now, Direction::Egress, Slot::default(), &mut data);
        let carried = self.here.feedback_to(now, &data);
        crate::ecn::departs(&mut data);
        let took = Time::from_us(self.delays_us[usize::from(data.label - LABELS[0])]);
        (data, carried, now + took)
    }

    /// It arrives, and an ACK goes back at once, without delay.
    fn arrive(&mut self, (mut data, carried, at): (Packet, Feedback, Time)) {
        let there = at + self.ahead;
        crate::ecn::arrives(&mut data);
        self.there.hear(there, &data, data.label, None, carried);
        self.there.process(there, Direction::Ingress, Slot::default(), &mut data);
        let mut ack = Packet { wire: self.there.wire(), ..segment(2, 1, 0) };
        self.there.process(there, Direction::Egress, Slot::default(), &mut ack);
        let told = self.there.feedback_to(there, &ack);
        crate::ecn::departs(&mut ack);
        crate::ecn::arrives(&mut ack);
        self.here.hear(at, &ack, ack.label, None, told);
        self.here.process(at, Direction::Ingress, Slot::default(), &mut ack);
    }

    /// Segments with these pauses between them, us. Returns how many segments arrived before one that left earlier, and how often the
    /// flow changed its path.
    fn run(&mut self, pauses: impl IntoIterator<Item = u64>) -> (usize, usize) {
        let mut under_way: BTreeMap<(Time, usize), (Packet, Feedback, Time)> = BTreeMap::new();
        let (mut now, mut newest, mut overtaken, mut changes, mut label) = (Time::from_ms(3), 0, 0, 0, 0);
        for (n, pause) in pauses.into_iter().enumerate() {
            now += Time::from_us(pause);
            while let Some(first) = under_way.first_entry().filter(|first| first.key().0 <= now) {
                let ((_, sent), segment) = first.remove_entry();
                overtaken += usize::from(sent < newest);
                newest = newest.max(sent);
                self.arrive(segment);
            }
            let sent = self.send(now);
            changes += usize::from(label != sent.0.label);
            label = sent.0.label;
            under_way.insert((sent.2, n), sent);
        }
        (overtaken, changes)
    }
}

const ADAPTIVE: [&str; 3] = [
    "flowlet,flowlet_gap=20us,flowlet_gap_most=600us",
    "flowlet,flowlet_gap=20us,flowlet_choice=random,flowlet_gap_most=600us",
    "clove,flowlet_gap=20us,clove_relay=50us,clove_clear=400us,clove_signal=delay,clove_late=200us,flowlet_gap_most=600us",
];

#[test]
fn flowlets_begin_at_pauses_as_long_as_the_paths_differ() {
    for balance in ADAPTIVE {
        // Once each path has had a packet, pauses of 100 us suffice where paths differ by 60 us, and do not where one is earlier by 400 us.
        let pauses = || [700; 40].into_iter().chain([100; 2000]);
        let mut alike = Pair::new(balance, [100, 120, 140, 160], Time::from_secs(77));
        let (overtaken, many) = alike.run(pauses());
        let mut apart = Pair::new(balance, [100, 500, 500, 500], Time::from_secs(77));
        let (never, few) = apart.run(pauses());
        assert_eq!((overtaken, never), (0, 0), "{balance}");
        assert!(many > 1000 && few < 500, "{balance}: {many} {few}");
    }
    // A fixed gap that is as short reorders.
    let mut fixed = Pair::new("flowlet,flowlet_gap=20us", [100, 500, 500, 500], Time::ZERO);
    assert!(fixed.run((0..2000).map(|_| 100)).0 > 100);
}

#[test]
fn a_path_that_is_late_loses_weight_and_no_switch_need_mark() {
    let balance = "clove,flowlet_gap=20us,clove_relay=50us,clove_clear=2ms,clove_signal=delay,clove_late=100us";
    let mut pair = Pair::new(balance, [100, 120, 400, 140], Time::from_secs(9));
    let (data, _, _) = pair.send(Time::from_ms(1));
    assert_eq!(data.outer_ecn, ecn::NOT_ECT, "marks are nobody's business");
    pair.run((0..200).map(|_| 150));
    let weights: Vec<u32> = pair.here.paths_to(&v4([10, 0, 0, 2])).map(|(_, path)| path.weight).collect();
    assert_eq!(weights.iter().sum::<u32>(), 65_536);
    assert!(weights[2] < 3000 && [0, 1, 3].iter().all(|at| weights[*at] > 20_000), "{weights:?}");
    // Marks that a peer tells of are not what it listens to, and it tells of none.
    let before = pair.here.paths_to(&v4([10, 0, 0, 2])).collect::<Vec<_>>();
    let mark = Feedback { kind: wire::feedback::CE, path: 1, value: 0 };
    pair.here.hear(Time::from_ms(90), &segment(2, 1, 0), LABELS[0], None, mark);
    assert_eq!(pair.here.paths_to(&v4([10, 0, 0, 2])).collect::<Vec<_>>(), before);
    let marked = Packet { wire: version::TWO, marked: 1, ..segment(1, 2, 0) };
    pair.there.hear(Time::from_secs(10), &marked, LABELS[0], None, Feedback::default());
    let ack = Packet { wire: version::TWO, ..segment(2, 1, 0) };
    let said: Vec<u8> = (0..8).map(|_| pair.there.feedback_to(Time::from_secs(10), &ack).kind).collect();
    assert!(!said.contains(&wire::feedback::CE), "{said:?}");
}

#[test]
fn without_the_options_nothing_is_stamped_and_no_stamp_is_heard() {
    for balance in ["flowlet", "clove", "clove-int"] {
        let mut pair = Pair::new(balance, [100; 4], Time::ZERO);
        let now = Time::from_ms(1);
        assert_eq!(pair.send(now).1, Feedback::default(), "{balance}");
        let stamp = Feedback { kind: 0, path: 1, value: 2 };
        let data = Packet { wire: version::TWO, label: LABELS[0], ..segment(1, 2, 1000) };
        pair.there.hear(now, &data, LABELS[0], None, stamp);
        let ack = Packet { wire: version::TWO, label: LABELS[0], ..segment(2, 1, 0) };
        assert_eq!(pair.there.feedback_to(now, &ack), Feedback::default(), "{balance}");
    }
}

#[test]
fn stamps_and_feedback_take_turns_and_each_path_is_stamped_in_its_time() {
    let mut pair = Pair::new(ADAPTIVE[0], [100; 4], Time::ZERO);
    let ack = Packet { wire: version::TWO, label: LABELS[3], ..segment(2, 1, 0) };
    let stamped = |feedback: Feedback| feedback.kind == 0 && (feedback.path, feedback.value) != (0, 0);
    let at = Time::from_us;
    assert!(stamped(pair.there.feedback_to(at(1000), &ack)));
    assert_eq!(pair.there.feedback_to(at(1010), &ack), Feedback::default(), "150 us lie between two");
    let other = Packet { label: LABELS[2], ..ack };
    assert!(stamped(pair.there.feedback_to(at(1010), &other)), "this one had none");
    // Both wait.
    for label in LABELS {
        let data = Packet { wire: version::TWO, label, ..segment(1, 2, 1000) };
        pair.there.hear(at(2000), &data, label, None, Feedback { kind: 0, path: 1, value: 2 });
    }
    let said: Vec<u8> = (0..8).map(|n| pair.there.feedback_to(at(3000 + 1000 * n), &ack).kind).collect();
    assert_eq!(said, [2, 0, 2, 0, 2, 0, 2, 0]);
    // Version 1 has no room for stamps.
    let old = Packet { wire: version::ONE, ..ack };
    assert_eq!(pair.there.feedback_to(at(20_000), &old), Feedback::default());
}

proptest! {
    /// Whatever the clocks' difference is: the latenesses are those of the delays.
    #[test]
    fn no_clock_matters(ahead: u32, start: u32, took in proptest::collection::vec((0u32..16_000, 0u32..500), 1..100)) {
        let mut oneway = OneWay::default();
        let (mut now, mut least) = (start, u32::MAX);
        for (took, pause) in took {
            now = now.wrapping_add(pause);
            // The stamp 0 is sent as 1.
            let stamp = now.wrapping_add(ahead) as u16;
            let took_by_stamp = if stamp == 0 { took.wrapping_sub(1) } else { took };
            prop_assume!(took_by_stamp != u32::MAX);
            least = least.min(took_by_stamp);
            prop_assert_eq!(oneway.arrived(now, took, ahead), took_by_stamp - least);
        }
    }

    /// Whatever a peer tells: the gap stays within its bounds, and a path that is not the schedule's is not written.
    #[test]
    fn a_gap_stays_within_its_bounds(
        heard in proptest::collection::vec((0u32..70, any::<u8>(), any::<u32>()), 0..200),
        n in 0usize..=PATHS,
        at in 0u32..300,
        least in 2u32..1000,
        more in 1u32..4_000_000,
    ) {
        let mut paths = [PathState::default(); PATHS];
        for (path, value, tick) in heard {
            told(&mut paths, n, path, value, tick);
            let gap = gap(&paths, n, at, (least, least + more), tick);
            prop_assert!((least..=least + more).contains(&gap), "{gap}");
            prop_assert!(paths[n..].iter().all(|path| *path == PathState::default()));
            let current = |path: &&PathState| path.told != 0 && path.epoch < 2;
            let epochs: Vec<u8> = paths[..n].iter().filter(current).map(|path| path.epoch).collect();
            prop_assert!(epochs.windows(2).all(|two| two[0] == two[1]), "{:?}", epochs);
        }
    }

    /// Paths of any constant delays that differ by less than the longest gap, and any pauses: nothing is reordered.
    #[test]
    fn flowlets_never_overtake(
        delays in proptest::array::uniform4(50u64..600),
        pauses in proptest::collection::vec(prop_oneof![0u64..40, 0u64..700], 1..400),
        ahead_us: u32,
        which in 0usize..3,
    ) {
        let mut pair = Pair::new(ADAPTIVE[which], delays, Time::from_us(u64::from(ahead_us)));
        prop_assert_eq!(pair.run(pauses).0, 0);
    }

    /// Forged, repeated and late feedback of either kind, while delays are the signal: shares sum to one, none is below its floor, and
    /// those towards another peer stay as they are.
    #[test]
    fn forged_delays_keep_the_shares(said in proptest::collection::vec((0u8..4, any::<u8>(), any::<u8>(), 0u64..500), 0..200)) {
        let mut pair = Pair::new(ADAPTIVE[2], [100; 4], Time::ZERO);
        let mut now = Time::from_ms(1);
        let third = Packet { wire: version::TWO, ..segment(1, 3, 1000) };
        pair.send(now);
        pair.here.process(now, Direction::Egress, Slot::default(), &mut third.clone());
        let other = pair.here.paths_to(&third.daddr).collect::<Vec<_>>();
        for (kind, path, value, pause) in said {
            now += Time::from_us(pause);
            let path = if path % 3 == 0 { path } else { path % 6 };
            let ack = Packet { wire: version::TWO, ..segment(2, 1, 0) };
            pair.here.hear(now, &ack, LABELS[0], None, Feedback { kind, path, value });
            pair.send(now);
            let weights: Vec<u32> = pair.here.paths_to(&ack.saddr).map(|(_, path)| path.weight).collect();
            prop_assert_eq!(weights.iter().sum::<u32>(), 65_536);
            prop_assert!(weights.iter().all(|weight| *weight >= 655), "{:?}", weights);
        }
        prop_assert_eq!(pair.here.paths_to(&third.daddr).collect::<Vec<_>>(), other);
    }
}

#[test]
fn a_gap_without_room_is_refused() {
    for wrong in ["flowlet,flowlet_gap=1ms,flowlet_gap_most=1ms", "clove,flowlet_gap=1ms,flowlet_gap_most=10us"] {
        let error = wrong.parse::<Balance>().unwrap_err();
        assert!(error.contains("flowlet_gap_most") && error.contains("give more than flowlet_gap, 1ms"), "{error}");
    }
    let fixed: Balance = "flowlet,flowlet_gap=1ms,flowlet_gap_most=0s".parse().unwrap();
    assert_eq!(
        (fixed.to_string().as_str(), fixed.keeps()),
        ("flowlet,flowlet_gap=1ms,flowlet_choice=round-robin", None)
    );
}
