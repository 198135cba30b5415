//! The receiver: when it acknowledges, what it reports, what window it announces.

use super::config;
use crate::tcp::cc::Algorithm;
use crate::tcp::tests::link::{Fate, Pair};
use crate::tcp::{codepoint, flags, Config, Endpoint, Recovery, Segment};
use std::sync::Arc;
use units::Time;

const ISS: u32 = 0xffff_fc00;

fn receiver(config: Config) -> Endpoint {
    let config = Arc::new(config);
    Endpoint::established(config.clone(), &config, 77, ISS, false)
}

fn plain() -> Config {
    Config { quickack: 0, ..config(Algorithm::NewReno, Recovery::Sack) }
}

fn data(offset: u32, len: u32) -> Segment {
    Segment {
        seq: ISS.wrapping_add(1 + offset),
        ack: 78,
        flags: flags::ACK,
        len,
        window: 0xffff,
        segment_size: 1000,
        ..Segment::default()
    }
}

/// Sends `segment` in; returns the ACKs that come out at once, with offsets counted from the start of the stream.
fn feed(endpoint: &mut Endpoint, segment: Segment) -> Vec<Segment> {
    feed_at(endpoint, Time::ZERO, segment)
}

fn feed_at(endpoint: &mut Endpoint, now: Time, segment: Segment) -> Vec<Segment> {
    endpoint.on_segment(now, &segment);
    drain(endpoint, now)
}

fn drain(endpoint: &mut Endpoint, now: Time) -> Vec<Segment> {
    let offset = |seq: u32| seq.wrapping_sub(ISS + 1);
    std::iter::from_fn(|| endpoint.poll_transmit(now, u64::MAX))
        .map(|mut ack| {
            ack.ack = offset(ack.ack);
            for block in &mut ack.sack[..usize::from(ack.n_sack)] {
                *block = (offset(block.0), offset(block.1));
            }
            ack
        })
        .collect()
}

fn acks(segments: &[Segment]) -> Vec<u32> {
    segments.iter().map(|segment| segment.ack).collect()
}

#[test]
fn every_second_segment_is_acknowledged_at_once_and_one_after_the_delay() {
    let mut rx = receiver(plain());
    assert!(feed(&mut rx, data(0, 1000)).is_empty());
    assert_eq!(acks(&feed(&mut rx, data(1000, 1000))), [2000]);
    assert_eq!(rx.poll_timeout(), None);
    let now = Time::from_ms(5);
    assert!(feed_at(&mut rx, now, data(2000, 1000)).is_empty());
    assert_eq!(rx.poll_timeout(), Some(Time::from_ms(45)));
    rx.handle_timeout(Time::from_ms(44));
    assert!(drain(&mut rx, Time::from_ms(44)).is_empty());
    rx.handle_timeout(Time::from_ms(45));
    assert_eq!(acks(&drain(&mut rx, Time::from_ms(45))), [3000]);
    assert_eq!(rx.rx.counters.delayed_acks, 1);
}

#[test]
fn what_gro_merged_of_two_is_acknowledged_at_once() {
    let mut rx = receiver(plain());
    assert_eq!(acks(&feed(&mut rx, data(0, 2000))), [2000]);
    assert_eq!(acks(&feed(&mut rx, data(2000, 1001))), [3001], "more than one segment");
    assert!(feed(&mut rx, data(3001, 999)).is_empty());
}

#[test]
fn the_first_acks_are_quick() {
    let mut rx = receiver(Config { quickack: 16, ..plain() });
    let immediate = (0..20).take_while(|n| !feed(&mut rx, data(1000 * n, 1000)).is_empty()).count();
    assert_eq!(immediate, 16);
    let mut eager = receiver(Config { delayed_ack: Time::ZERO, ..plain() });
    assert!((0..20).all(|n| !feed(&mut eager, data(1000 * n, 1000)).is_empty()));
}

#[test]
fn after_a_duplicate_acks_are_quick_again() {
    let mut rx = receiver(Config { quickack: 3, ..plain() });
    let immediate = |rx: &mut Endpoint, from: u32| {
        (from..from + 8).take_while(|n| !feed(rx, data(1000 * n, 1000)).is_empty()).count()
    };
    assert_eq!(immediate(&mut rx, 0), 3);
    // The fourth waits for the delay; its sender sends it again.
    assert_eq!(acks(&feed(&mut rx, data(3000, 1000))), [4000]);
    assert_eq!(immediate(&mut rx, 4), 2, "the duplicate's ACK was the first of three");
    assert!(feed(&mut receiver(plain()), data(0, 1000)).is_empty());
    let mut never = receiver(plain());
    feed(&mut never, data(0, 2000));
    assert_eq!(feed(&mut never, data(0, 1000)).len(), 1);
    assert!(feed(&mut never, data(2000, 1000)).is_empty(), "with no quick ACKs at all");
}

#[test]
fn disorder_is_acknowledged_at_once() {
    let mut rx = receiver(plain());
    let out = feed(&mut rx, data(1000, 1000));
    assert_eq!((acks(&out), out[0].sacks()), (vec![0], &[(1000, 2000)][..]));
    let out = feed(&mut rx, data(0, 500));
    assert_eq!(acks(&out), [500], "data in order while there is a hole");
    let out = feed(&mut rx, data(500, 500));
    assert_eq!((acks(&out), out[0].n_sack), (vec![2000], 0), "the hole is filled");
    assert_eq!(rx.rx.delivered(), 2000);
}

#[test]
fn sack_blocks_come_most_recent_first() {
    // RFC 2018, section 4, case 3: segments of 500 bytes from 5000 on; the first, third, fifth and seventh are lost.
    let mut rx = receiver(plain());
    let feed = |rx: &mut Endpoint, offset| feed(rx, data(offset, 500)).pop().unwrap().sacks().to_vec();
    assert_eq!(feed(&mut rx, 500), [(500, 1000)]);
    assert_eq!(feed(&mut rx, 1500), [(1500, 2000), (500, 1000)]);
    assert_eq!(feed(&mut rx, 2500), [(2500, 3000), (1500, 2000), (500, 1000)]);
    assert_eq!(feed(&mut rx, 3500), [(3500, 4000), (2500, 3000), (1500, 2000)], "three fit");
    // The fourth segment arrives: it joins two blocks, which is now the most recent.
    assert_eq!(feed(&mut rx, 2000), [(1500, 3000), (3500, 4000)]);
    assert_eq!(rx.rx.out_of_order_bytes(), 500 + 1500 + 500);
    assert_eq!(feed(&mut rx, 0), [(1500, 3000), (3500, 4000)]);
}

#[test]
fn duplicates_are_reported() {
    // RFC 2883, section 4.1: DSACK first, below the ACK or within the second block.
    let mut rx = receiver(plain());
    feed(&mut rx, data(0, 2000));
    let out = feed(&mut rx, data(500, 500));
    assert_eq!((acks(&out), out[0].sacks()), (vec![2000], &[(500, 1000)][..]));
    feed(&mut rx, data(3000, 1000));
    let out = feed(&mut rx, data(3000, 500));
    assert_eq!(out[0].sacks(), [(3000, 3500), (3000, 4000)]);
    assert_eq!(rx.rx.counters.duplicates, 2);
    assert_eq!(rx.rx.delivered(), 2000);
}

#[test]
fn without_sack_nothing_is_reported() {
    let mut rx = receiver(Config { recovery: Recovery::NewReno, ..plain() });
    let out = feed(&mut rx, data(1000, 1000));
    assert_eq!((acks(&out), out[0].n_sack), (vec![0], 0));
}

#[test]
fn ranges_are_bounded() {
    let mut rx = receiver(Config { max_ooo_ranges: 3, ..plain() });
    for n in 1..10 {
        feed(&mut rx, data(2000 * n, 1000));
    }
    assert_eq!((rx.rx.out_of_order_bytes(), rx.rx.counters.refused), (3000, 6));
    feed(&mut rx, data(3000, 1000));
    assert_eq!(rx.rx.out_of_order_bytes(), 4000, "what joins a range still fits");
}

#[test]
fn dctcp_acknowledges_a_change_of_state_early() {
    let mut rx = receiver(Config { congestion: Algorithm::Dctcp, ..plain() });
    let marked = |offset, ecn| Segment { ecn, ..data(offset, 1000) };
    let ece = |out: &[Segment]| -> Vec<(u32, bool)> { out.iter().map(|a| (a.ack, a.has(flags::ECE))).collect() };
    assert!(feed(&mut rx, marked(0, codepoint::ECT0)).is_empty());
    let out = feed(&mut rx, marked(1000, codepoint::CE));
    assert_eq!(ece(&out), [(1000, false), (2000, true)], "first what came before, without ECE");
    assert!(feed(&mut rx, marked(2000, codepoint::CE)).is_empty(), "no change: delayed as ever");
    assert_eq!(ece(&feed(&mut rx, marked(3000, codepoint::CE))), [(4000, true)]);
    assert_eq!(ece(&feed(&mut rx, marked(4000, codepoint::ECT0))), [(5000, false)], "nothing was waiting");
    assert_eq!((rx.rx.counters.ce_segments, rx.rx.counters.ce_packets), (3, 3));
}

fn slow_reader() -> Pair {
    let config = Arc::new(Config { rcvbuf: 10_000, auto_read: false, ..plain() });
    let client = Endpoint::established(config.clone(), &config, 1, 2, true);
    let server = Endpoint::established(config.clone(), &config, 2, 1, false);
    Pair::new(client, server)
}

#[test]
fn a_closed_window_stops_the_sender_and_reopening_frees_it() {
    let mut pair = slow_reader();
    pair.client().write(25_000);
    assert!(!pair.run(Time::from_ms(100)));
    assert_eq!((pair.server().rx.delivered(), pair.client().tx.snd_wnd()), (10_000, 0));
    assert_eq!(pair.server().read(500), 500);
    assert!(!pair.run(Time::from_ms(150)));
    assert_eq!(pair.client().tx.snd_wnd(), 0, "no silly window");
    assert_eq!(pair.server().read(6_000), 6_000);
    assert!(!pair.run(Time::from_ms(190)));
    assert_eq!(pair.server().rx.delivered(), 16_500, "the window is filled to the last byte");
    assert_eq!(pair.server().read(u64::MAX), 10_000);
    pair.run(Time::from_ms(195));
    assert_eq!(pair.server().read(u64::MAX), 8_500);
    assert!(pair.run(Time::from_secs(1)));
    assert_eq!(pair.client().tx.counters.window_probes, 0);
}

#[test]
fn probes_survive_a_lost_window_update() {
    let mut pair = slow_reader();
    pair.keep_log = true;
    pair.client().write(25_000);
    assert!(!pair.run(Time::from_ms(100)));
    pair.tamper(|side, _| if side == 1 { Fate::Drop } else { Fate::Pass });
    pair.server().read(u64::MAX);
    pair.run(Time::from_ms(150));
    pair.tamper(|_, _| Fate::Pass);
    assert_eq!(pair.client().tx.snd_wnd(), 0);
    pair.run(Time::from_ms(300));
    assert_eq!(pair.client().tx.counters.window_probes, 1);
    assert_eq!(pair.server().rx.delivered(), 20_000);
}

#[test]
fn probes_back_off_and_never_stop() {
    let mut pair = slow_reader();
    pair.client().write(25_000);
    assert!(!pair.run(Time::from_secs(10)));
    // After the window closed, at 0.2, 0.6, 1.4, 3.0 and 6.2 s or so.
    assert_eq!(pair.client().tx.counters.window_probes, 5);
    assert_eq!(pair.client().tx.counters.timeouts, 0);
    assert!(pair.client().poll_timeout().is_some());
}
