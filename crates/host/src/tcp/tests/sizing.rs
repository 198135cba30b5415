//! How large segments are and what holds them back.

use super::config;
use crate::tcp::cc::Algorithm;
use crate::tcp::{flags, Config, Endpoint, Recovery, Segment};
use std::sync::Arc;
use units::Time;

fn sender(config: Config) -> Endpoint {
    let config = Arc::new(config);
    Endpoint::established(config.clone(), &config, 0, 0, true)
}

fn plain() -> Config {
    Config { tsq_limit: None, ..config(Algorithm::NewReno, Recovery::Sack) }
}

fn lens(endpoint: &mut Endpoint, now: Time, budget: u64) -> Vec<u32> {
    std::iter::from_fn(|| endpoint.poll_transmit(now, budget)).map(|segment| segment.len).collect()
}

/// The peer acknowledges the first `acked` bytes of the stream.
fn ack(endpoint: &mut Endpoint, now: Time, acked: u32) {
    let segment = Segment { seq: 1, ack: 1 + acked, flags: flags::ACK, window: 0xffff, ..Segment::default() };
    endpoint.on_segment(now, &segment);
}

#[test]
fn the_initial_window_leaves_in_the_largest_segments() {
    let mut tx = sender(plain());
    tx.write(1 << 20);
    assert_eq!(lens(&mut tx, Time::ZERO, u64::MAX), [10_000]);
    let mut tx = sender(Config { tso: false, ..plain() });
    tx.write(1 << 20);
    assert_eq!(lens(&mut tx, Time::ZERO, u64::MAX), [1000; 10]);
    let mut tx = sender(Config { tso_max: 4_500, ..plain() });
    tx.write(1 << 20);
    assert_eq!(lens(&mut tx, Time::ZERO, u64::MAX), [4000, 4000], "the rest is less than a third of the window");
    let mut tx = sender(Config { tso_max: 4_500, tso_defer: false, ..plain() });
    tx.write(1 << 20);
    assert_eq!(lens(&mut tx, Time::ZERO, u64::MAX), [4000, 4000, 2000]);
}

#[test]
fn segments_carry_a_millisecond_of_the_pacing_rate() {
    let mut tx = sender(Config { initial_cwnd: 100, ..plain() });
    tx.write(10_000);
    lens(&mut tx, Time::ZERO, u64::MAX);
    // 100 segments and 20 ms: 2 * 100 kB / 20 ms = 10 MB/s, so 9,765 bytes in 1/1024 s.
    ack(&mut tx, Time::from_ms(20), 10_000);
    assert!((9_900_000..11_100_000).contains(&tx.tx.pacing_rate()), "{}", tx.tx.pacing_rate());
    tx.write(1 << 20);
    assert_eq!(lens(&mut tx, Time::from_ms(20), u64::MAX)[..3], [9000, 9000, 9000]);
}

#[test]
fn a_slow_flow_still_sends_two_packets_a_segment() {
    let mut tx = sender(plain());
    tx.write(10_000);
    lens(&mut tx, Time::ZERO, u64::MAX);
    ack(&mut tx, Time::from_ms(100), 10_000);
    tx.write(1 << 20);
    assert!(lens(&mut tx, Time::from_ms(100), u64::MAX).iter().all(|&len| len == 2000));
}

#[test]
fn sending_waits_for_a_third_of_the_window() {
    // Slow start is over, so the window stands at 30 segments, and an ACK of 2 frees too little.
    let mut tx = sender(Config { initial_cwnd: 30, ..plain() });
    tx.write(1 << 20);
    assert_eq!(lens(&mut tx, Time::ZERO, u64::MAX), [30_000]);
    tx.tx.window.ssthresh = 30_000;
    let now = Time::from_us(100);
    for acked in [2_000, 4_000, 8_000, 9_000] {
        ack(&mut tx, now, acked);
        assert!(lens(&mut tx, now, u64::MAX).is_empty(), "{acked} bytes free");
    }
    ack(&mut tx, now, 10_000);
    assert_eq!(lens(&mut tx, now, u64::MAX), [10_000]);
    let mut tx = sender(Config { initial_cwnd: 30, tso_defer: false, ..plain() });
    tx.write(1 << 20);
    lens(&mut tx, Time::ZERO, u64::MAX);
    tx.tx.window.ssthresh = 30_000;
    ack(&mut tx, now, 2_000);
    assert_eq!(lens(&mut tx, now, u64::MAX), [2_000]);
}

/// The ACK of the packet just sent is a round trip of a millisecond away.
#[test]
fn since_6_18_a_segment_waits_only_for_an_ack_that_is_near() {
    let second_round = |tso_defer_near| {
        let mut tx = sender(Config { initial_cwnd: 11, tso_max: 4_500, tso_defer_near, ..plain() });
        tx.write(11_000);
        lens(&mut tx, Time::ZERO, u64::MAX);
        ack(&mut tx, Time::from_ms(1), 11_000);
        tx.write(1 << 20);
        lens(&mut tx, Time::from_ms(1), u64::MAX)
    };
    assert_eq!(second_round(false), [4_000; 5]);
    assert_eq!(second_round(true), [4_000, 4_000, 4_000, 4_000, 4_000, 2_000]);
}

#[test]
fn the_end_of_the_data_is_not_deferred() {
    let mut tx = sender(Config { initial_cwnd: 30, ..plain() });
    tx.write(31_500);
    assert_eq!(lens(&mut tx, Time::ZERO, u64::MAX), [30_000]);
    tx.tx.window.ssthresh = 30_000;
    ack(&mut tx, Time::from_us(100), 2_000);
    assert_eq!(lens(&mut tx, Time::from_us(100), u64::MAX), [1_500]);
}

#[test]
fn small_queues_hold_two_segments() {
    let mut tx = sender(Config { initial_cwnd: 1000, tsq_limit: Some(128 << 10), ..plain() });
    tx.write(1 << 20);
    assert_eq!(lens(&mut tx, Time::ZERO, u64::MAX), [65_000, 65_000]);
    tx.on_nic_tx_done(1000);
    assert!(lens(&mut tx, Time::ZERO, u64::MAX).is_empty());
    tx.on_nic_tx_done(64_000);
    assert_eq!(lens(&mut tx, Time::ZERO, u64::MAX), [65_000]);
    tx.on_nic_tx_done(130_000);
    assert_eq!(lens(&mut tx, Time::ZERO, u64::MAX), [65_000, 65_000]);
}

#[test]
fn near_peers_get_the_largest_segments() {
    for (rtt, log, len) in [(500, 9, 65_000), (511, 9, 65_000), (1100, 9, 25_000), (500, 0, 9_000), (40_000, 9, 9_000)]
    {
        let mut tx = sender(Config { initial_cwnd: 100, tso_rtt_log: log, ..plain() });
        tx.write(10_000);
        lens(&mut tx, Time::ZERO, u64::MAX);
        ack(&mut tx, Time::from_us(rtt), 10_000);
        // As if a queue had been there since: a millisecond's worth is about 9 KB.
        tx.tx.pacing_rate = 9_800_000;
        tx.write(1 << 20);
        assert_eq!(lens(&mut tx, Time::from_us(rtt), u64::MAX)[0], len, "{rtt} us, {log}");
    }
}

#[test]
fn small_queues_count_buffers_where_they_are_to() {
    // 300 KB in a millisecond: Linux sends a fifth segment while four, 264 KB of buffers, are below that.
    for (truesize, segments) in [(false, 4), (true, 5)] {
        let mut tx = sender(Config { initial_cwnd: 1000, tsq_limit: Some(4 << 20), tsq_truesize: truesize, ..plain() });
        tx.write(1 << 20);
        tx.tx.pacing_rate = 300_000 << 10;
        assert_eq!(lens(&mut tx, Time::ZERO, u64::MAX), vec![65_000; segments]);
    }
    let mut tx = sender(Config { initial_cwnd: 1000, tsq_limit: Some(128 << 10), tsq_truesize: true, ..plain() });
    tx.write(1 << 20);
    assert_eq!(
        lens(&mut tx, Time::ZERO, u64::MAX),
        [65_000, 65_000],
        "two of the largest, with the limit of old kernels"
    );
    tx.on_nic_tx_done(65_000);
    assert_eq!(lens(&mut tx, Time::ZERO, u64::MAX), [65_000]);
}

#[test]
fn the_budget_is_kept_in_whole_packets() {
    let mut tx = sender(plain());
    tx.write(1 << 20);
    assert!(lens(&mut tx, Time::ZERO, 999).is_empty());
    assert_eq!(tx.poll_transmit(Time::ZERO, 3_999).map(|segment| segment.len), Some(3_000));
    assert_eq!(tx.tx.in_flight(), 3_000);
}

#[test]
fn the_peers_window_is_filled_to_the_last_byte() {
    // While a small packet is outstanding, Nagle's algorithm holds partial packets.
    for (nagle, next) in [(false, 1_600), (true, 1_000)] {
        let mut tx = sender(Config { nagle, ..plain() });
        tx.write(1 << 20);
        tx.tx.snd_wnd = 1_500;
        assert_eq!(lens(&mut tx, Time::ZERO, u64::MAX), [1_500]);
        tx.tx.snd_wnd = 3_100;
        assert_eq!(lens(&mut tx, Time::ZERO, u64::MAX), [next], "Nagle: {nagle}");
    }
}

#[test]
fn the_congestion_window_is_filled_in_whole_packets() {
    let mut tx = sender(plain());
    tx.write(1 << 20);
    tx.tx.window.cwnd = 1_500;
    assert_eq!(lens(&mut tx, Time::ZERO, u64::MAX), [1_000]);
}

#[test]
fn pacing_spaces_segments() {
    let mut tx = sender(Config { pacing: true, initial_cwnd: 100, ..plain() });
    tx.write(10_000);
    lens(&mut tx, Time::ZERO, u64::MAX);
    ack(&mut tx, Time::from_ms(20), 10_000);
    tx.write(1 << 20);
    let now = Time::from_ms(20);
    assert_eq!(lens(&mut tx, now, u64::MAX).len(), 1);
    let next = tx.poll_timeout().unwrap();
    // 9,000 bytes at some 10.4 MB/s.
    assert!((Time::from_us(20_800)..Time::from_us(20_910)).contains(&next), "{next}");
    assert!(lens(&mut tx, next - Time::from_ns(1), u64::MAX).is_empty());
    tx.handle_timeout(next);
    assert_eq!(lens(&mut tx, next, u64::MAX).len(), 1);
}

#[test]
fn a_second_small_segment_waits_for_the_first() {
    for (nagle, expected) in [(true, 1), (false, 2)] {
        let mut tx = sender(Config { nagle, ..plain() });
        tx.write(100);
        assert_eq!(lens(&mut tx, Time::ZERO, u64::MAX), [100]);
        tx.write(100);
        assert_eq!(1 + lens(&mut tx, Time::ZERO, u64::MAX).len(), expected);
        ack(&mut tx, Time::from_us(100), 100);
        lens(&mut tx, Time::from_us(100), u64::MAX);
        assert_eq!(tx.tx.unsent(), 0);
    }
}

#[test]
fn idleness_shrinks_the_window() {
    for (restart, expected) in [(true, 10_000), (false, 40_000)] {
        let mut tx = sender(Config { slow_start_after_idle: restart, initial_cwnd: 10, ..plain() });
        tx.write(20_000);
        lens(&mut tx, Time::ZERO, u64::MAX);
        ack(&mut tx, Time::from_us(100), 10_000);
        lens(&mut tx, Time::from_us(100), u64::MAX);
        ack(&mut tx, Time::from_us(200), 20_000);
        let grown = tx.tx.cwnd();
        assert!(grown >= 20_000);
        tx.tx.window.cwnd = 40_000;
        tx.write(1 << 20);
        let sent: u32 = lens(&mut tx, Time::from_secs(2), u64::MAX).iter().sum();
        assert_eq!(sent, expected);
    }
}

#[test]
fn an_unused_window_does_not_grow() {
    let mut tx = sender(plain());
    let mut acked = 0;
    for round in 0..50u64 {
        tx.write(1_000);
        let now = Time::from_us(100 * round);
        lens(&mut tx, now, u64::MAX);
        acked += 1_000;
        ack(&mut tx, now + Time::from_us(50), acked);
    }
    assert_eq!(tx.tx.cwnd(), 10_000);
}
