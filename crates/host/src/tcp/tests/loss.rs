//! Loss and reordering: what is retransmitted, when, and what the window does.

use super::{config, established, LAWS, RECOVERIES};
use crate::tcp::cc::Algorithm;
use crate::tcp::tests::link::Fate;
use crate::tcp::{CaState, Config, EcnMode, Recovery};
use units::{BitRate, Time};

#[test]
fn one_loss_costs_one_fast_retransmit() {
    for recovery in RECOVERIES {
        for timestamps in [false, true] {
            let mut pair = established(Config { timestamps, ..config(Algorithm::NewReno, recovery) });
            pair.drop_data(&[20]);
            pair.client().write(200_000);
            assert!(pair.run(Time::from_secs(1)), "{recovery:?}");
            let counters = pair.client().tx.counters;
            assert_eq!(counters.retransmitted_packets, 1, "{recovery:?}");
            assert_eq!((counters.fast_retransmits, counters.timeouts), (1, 0), "{recovery:?}");
            assert_eq!(counters.undos, 0);
            assert_eq!(pair.client().tx.ca_state(), CaState::Open);
            assert!(pair.now < Time::from_ms(50), "{recovery:?} took {}", pair.now);
        }
    }
}

#[test]
fn a_loss_halves_the_window() {
    for prr in [false, true] {
        let mut pair = established(Config { prr, ..config(Algorithm::NewReno, Recovery::Sack) });
        pair.delay = Time::from_ms(5);
        pair.drop_data(&[70]);
        pair.client().write(150_000);
        assert!(pair.run(Time::from_secs(2)));
        // The loss is found in the window that started at 80 segments.
        let ssthresh = pair.client().tx.ssthresh();
        assert!((35_000..=80_000).contains(&ssthresh), "{ssthresh}");
        assert!(pair.client().tx.cwnd() >= ssthresh && pair.client().tx.cwnd() <= ssthresh + 5_000);
    }
}

#[test]
fn without_sack_a_loss_among_the_last_three_segments_waits_for_the_timer() {
    for n in 2..=8 {
        for lost in 0..n {
            let mut pair = established(config(Algorithm::NewReno, Recovery::NewReno));
            pair.drop_data(&[lost]);
            pair.client().write(n * 1000);
            assert!(pair.run(Time::from_secs(2)));
            let counters = pair.client().tx.counters;
            // Each segment behind the lost one makes a duplicate ACK.
            let expected = if n - 1 - lost < 3 { (1, 0) } else { (0, 1) };
            assert_eq!((counters.timeouts, counters.fast_retransmits), expected, "{lost} of {n}");
        }
    }
}

#[test]
fn many_holes_in_a_window() {
    let holes = [30, 31, 33, 36, 40, 41, 42, 50];
    for (recovery, round_trips) in [(Recovery::NewReno, 14), (Recovery::Sack, 8), (Recovery::Rack, 8)] {
        let mut pair = established(config(Algorithm::Cubic, recovery));
        pair.rate = BitRate::from_gbps(10);
        pair.delay = Time::from_ms(5);
        pair.drop_data(&holes);
        pair.client().write(100_000);
        assert!(pair.run(Time::from_secs(3)), "{recovery:?}");
        let counters = pair.client().tx.counters;
        assert_eq!((counters.timeouts, counters.fast_retransmits), (0, 1), "{recovery:?}");
        assert_eq!(counters.retransmitted_packets, holes.len() as u64, "{recovery:?}");
        let limit = Time::from_ms(10 * round_trips + 41);
        assert!(pair.now < limit, "{recovery:?} took {}", pair.now);
    }
}

#[test]
fn a_lost_tail_waits_for_the_timeout_or_is_probed() {
    for (recovery, tail_loss_probe, timeouts, probes) in
        [(Recovery::Sack, true, 1, 0), (Recovery::Rack, true, 0, 1), (Recovery::Rack, false, 1, 0)]
    {
        let mut pair = established(Config { tail_loss_probe, ..config(Algorithm::NewReno, recovery) });
        pair.drop_data(&[38, 39]);
        pair.client().write(40_000);
        assert!(pair.run(Time::from_secs(3)), "{recovery:?}");
        let counters = pair.client().tx.counters;
        assert_eq!((counters.timeouts, counters.tail_loss_probes), (timeouts, probes), "{recovery:?}");
        let late = pair.now >= Time::from_ms(200);
        assert_eq!(late, timeouts > 0, "{recovery:?} took {}", pair.now);
        assert!(pair.client().tx.ssthresh() < u64::MAX, "a loss repaired by a probe costs as any other");
    }
}

#[test]
fn a_tail_probe_that_repairs_the_only_loss_reduces_the_window() {
    let mut pair = established(config(Algorithm::NewReno, Recovery::Rack));
    pair.drop_data(&[39]);
    pair.client().write(40_000);
    // The reduction needs an ACK above the probe (RFC 8985, section 7.4), so there has to be more data afterwards.
    assert!(pair.run(Time::from_ms(100)));
    assert_eq!(pair.client().tx.counters.tail_loss_probes, 1);
    pair.client().write(1_000);
    assert!(pair.run(Time::from_ms(190)));
    assert_eq!(pair.client().tx.counters.timeouts, 0);
    assert!(pair.client().tx.ssthresh() < u64::MAX);
}

#[test]
fn timeouts_back_off() {
    let mut pair = established(config(Algorithm::NewReno, Recovery::Sack));
    pair.tamper(|side, _| if side == 0 { Fate::Drop } else { Fate::Pass });
    pair.keep_log = true;
    pair.client().write(5_000);
    assert!(!pair.run(Time::from_secs(70)));
    let at: Vec<u64> =
        pair.log.iter().filter(|entry| entry.2.is_retransmission).map(|entry| entry.0.as_secs_f64() as u64).collect();
    assert_eq!(at, [1, 3, 7, 15, 31, 63], "initial timeout 1 s, doubled each time");
    assert_eq!(pair.client().tx.counters.timeouts, 6);
    assert_eq!(pair.client().tx.cwnd(), 1_000);
    assert_eq!(pair.client().tx.ssthresh(), 5_000, "reduced once, however often the segment times out");
}

/// Drops the segment at 10,000 bytes the first two times it is sent.
fn drop_twice(pair: &mut super::link::Pair) {
    let mut seen = 0;
    pair.tamper(move |side, segment| {
        let hit = side == 0 && segment.len > 0 && segment.seq == 0xffff_f001u32.wrapping_add(10_000);
        seen += u32::from(hit);
        if hit && seen <= 2 {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
}

#[test]
fn after_a_timeout_only_what_was_not_sacked_is_sent_again() {
    let mut pair = established(config(Algorithm::NewReno, Recovery::Sack));
    drop_twice(&mut pair);
    pair.client().write(40_000);
    assert!(pair.run(Time::from_secs(3)));
    let counters = pair.client().tx.counters;
    assert_eq!((counters.retransmitted_packets, counters.timeouts), (2, 1));
}

#[test]
fn rack_finds_a_lost_retransmission_without_a_timeout() {
    for (recovery, timeouts) in [(Recovery::Sack, 1), (Recovery::Rack, 0)] {
        let mut pair = established(config(Algorithm::NewReno, recovery));
        drop_twice(&mut pair);
        pair.client().write(2_000_000);
        assert!(pair.run(Time::from_secs(3)));
        assert_eq!(pair.client().tx.counters.timeouts, timeouts, "{recovery:?}");
    }
}

/// Makes every `period`th data packet of the client late by `by`.
fn reorder(pair: &mut super::link::Pair, period: u64, by: Time) {
    let mut count = 0;
    pair.tamper(move |side, segment| {
        count += u64::from(side == 0 && segment.len > 0);
        if side == 0 && segment.len > 0 && count % period == 0 {
            Fate::Late(by)
        } else {
            Fate::Pass
        }
    });
}

#[test]
fn reordering_raises_the_threshold_and_is_undone() {
    let run = |adaptive_reordering, undo| {
        let mut pair = established(Config { adaptive_reordering, undo, ..config(Algorithm::NewReno, Recovery::Sack) });
        pair.delay = Time::from_us(500);
        reorder(&mut pair, 100, Time::from_us(100));
        pair.client().write(3_000_000);
        assert!(pair.run(Time::from_secs(5)));
        (pair.client().tx.counters, pair.client().tx.reordering(), pair.now)
    };
    let (rigid, threshold, slow) = run(false, false);
    assert_eq!((threshold, rigid.undos), (3, 0));
    assert!(rigid.fast_retransmits >= 10, "{rigid:?}");
    let (adaptive, threshold, fast) = run(true, true);
    assert!(threshold > 3, "{threshold}");
    assert!((1..=3).contains(&adaptive.fast_retransmits), "{adaptive:?}");
    assert!(adaptive.undos >= 1 && adaptive.spurious >= 1, "{adaptive:?}");
    assert!(fast < slow, "{fast} against {slow}");
}

#[test]
fn rack_waits_for_overtaken_packets() {
    let mut pair = established(config(Algorithm::NewReno, Recovery::Rack));
    pair.delay = Time::from_us(500);
    reorder(&mut pair, 100, Time::from_us(100));
    pair.client().write(3_000_000);
    assert!(pair.run(Time::from_secs(5)));
    // 30 packets are overtaken. The first few tell RACK of the reordering, the rest are waited for.
    let counters = pair.client().tx.counters;
    assert!(counters.fast_retransmits <= 4 && counters.retransmitted_packets <= 4, "{counters:?}");
}

#[test]
fn timestamps_undo_a_spurious_timeout() {
    let mut pair = established(Config {
        timestamps: true,
        rto_min: Time::from_ms(5),
        ..config(Algorithm::NewReno, Recovery::Sack)
    });
    let mut count = 0;
    pair.tamper(move |side, segment| {
        count += u64::from(side == 0 && segment.len > 0);
        if side == 0 && (100..130).contains(&count) {
            Fate::Late(Time::from_ms(20))
        } else {
            Fate::Pass
        }
    });
    pair.client().write(110_000);
    assert!(pair.run(Time::from_secs(1)));
    let counters = pair.client().tx.counters;
    assert!(counters.timeouts >= 1 && counters.undos >= 1, "{counters:?}");
    assert!(pair.client().tx.cwnd() > 50_000, "{}", pair.client().tx.cwnd());
}

/// A least timeout below the longest delay of an ACK, as in data centres: the retransmission of a lost tail waits for its ACK,
/// and so times out once more. What follows from a window of one segment must not wait and time out as well.
#[test]
fn a_lost_tail_costs_two_timeouts_at_most_where_acks_may_be_later_than_they() {
    for size in [300, 1000] {
        let mut pair = established(Config { rto_min: Time::from_ms(10), ..config(Algorithm::Cubic, Recovery::Sack) });
        pair.drop_data(&[60]);
        pair.client().write(60_000 + size);
        pair.run(Time::from_ms(15));
        assert_eq!(pair.client().tx.counters.timeouts, 1);
        assert_eq!(pair.server().rx.delivered(), 60_000 + size, "its ACK waits");
        pair.client().write(100_000);
        pair.run(Time::from_ms(40));
        assert_eq!(pair.server().rx.delivered(), 160_000 + size, "after 10 ms, 20 ms, and what the data takes");
        assert_eq!(pair.client().tx.counters.timeouts, 2);
    }
}

/// Goodput in segments per round trip under random loss, against the law of Mathis et al. with byte counting.
#[test]
fn newreno_follows_the_inverse_square_root_of_loss() {
    for p in [0.0005, 0.002] {
        let mut pair = established(Config {
            slow_start_after_idle: false,
            tso: false,
            quickack: 0,
            ..config(Algorithm::NewReno, Recovery::Sack)
        });
        pair.rate = BitRate::from_gbps(10);
        pair.delay = Time::from_ms(10);
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        pair.tamper(move |side, segment| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let draw = (state >> 33) as f64 / (1u64 << 31) as f64;
            if side == 0 && segment.len > 0 && draw < p {
                Fate::Drop
            } else {
                Fate::Pass
            }
        });
        pair.client().write(1 << 40);
        let seconds = 400;
        pair.run(Time::from_secs(seconds));
        let round_trips = seconds as f64 / 0.02;
        let measured = pair.client().tx.acked() as f64 / 1000.0 / round_trips;
        let law = (1.5 / p).sqrt();
        assert!((measured / law - 1.0).abs() < 0.15, "p {p}: {measured:.1} segments against {law:.1}");
    }
}

/// Drop-tail at 10 Gbps and 100 us, two bandwidth-delay products of buffer: the line is full from 20 ms on.
#[test]
fn every_law_and_recovery_fills_a_line_with_a_drop_tail_queue() {
    for law in LAWS {
        for recovery in RECOVERIES {
            if matches!(law, Algorithm::Illinois | Algorithm::HighSpeed) && recovery != Recovery::Rack {
                // They give up less than half after slow start: the queue stays full and drops retransmissions, too,
                // which only RACK finds without a timeout, or more than one segment a round trip can repair.
                continue;
            }
            let mut pair =
                established(Config { mss: 1460, ecn: EcnMode::Off, tsq_limit: None, ..config(law, recovery) });
            pair.rate = BitRate::from_gbps(10);
            pair.delay = Time::from_us(48);
            pair.queue = 250_000;
            pair.client().write(u64::MAX);
            pair.run(Time::from_ms(20));
            let before = pair.client().tx.acked();
            pair.run(Time::from_ms(120));
            let bytes = (pair.client().tx.acked() - before) as f64;
            let share = bytes * (1538.0 / 1460.0) / (10e9 / 8.0 * 0.1);
            let counters = pair.client().tx.counters;
            assert_eq!(pair.drops > 0, law != Algorithm::Vegas, "{law:?}: Vegas alone leaves room in the queue");
            assert!(share > 0.98, "{law:?} {recovery:?}: {share}, {} drops, {counters:?}", pair.drops);
            assert_eq!(counters.timeouts, 0, "{law:?} {recovery:?}");
        }
    }
}
