//! pFabric's transport, alone and with FastLane, and ICMP Source Quench.

use super::link::{Fate, Pair};
use crate::tcp::cc::Algorithm;
use crate::tcp::fastlane::{self, Notification};
use crate::tcp::{flags, pfabric, CaState, Config, Endpoint, Recovery, Segment};
use proptest::prelude::*;
use std::sync::Arc;
use units::Time;

const RTO: Time = Time::from_us(250);

fn config(fastlane: bool) -> Config {
    Config {
        mss: if fastlane { 1004 } else { 1000 },
        congestion: Algorithm::NewReno,
        recovery: Recovery::Timer,
        tso: false,
        delayed_ack: Time::ZERO,
        rto_min: RTO,
        rto_initial: RTO,
        undo: false,
        fastlane: fastlane.then(fastlane::Options::default),
        pfabric: Some(pfabric::Options::default()),
        ..Config::default()
    }
}

fn outstanding(config: Config, n: u64) -> (Endpoint, Vec<Segment>) {
    let config = Arc::new(Config { initial_cwnd: n as u32, ..config });
    let mut end = Endpoint::established(config.clone(), &config, 0, 0, true);
    end.write(n * 1000);
    let sent = sent(&mut end, Time::ZERO);
    assert_eq!(sent.len() as u64, n);
    (end, sent)
}

fn sent(end: &mut Endpoint, now: Time) -> Vec<Segment> {
    let next = std::iter::from_fn(|| {
        let segment = end.poll_transmit(now, u64::MAX)?;
        end.on_nic_tx_done(u64::from(segment.len));
        Some(segment)
    });
    next.collect()
}

fn ack(end: &mut Endpoint, upto: u32, sack: &[(u32, u32)]) {
    let mut segment = Segment { ack: upto, seq: 1, flags: flags::ACK, window: 0xffff, ..Segment::default() };
    segment.n_sack = sack.len() as u8;
    segment.sack[..sack.len()].copy_from_slice(sack);
    end.on_segment(Time::from_us(50), &segment);
}

fn answer(end: &mut Endpoint, now: Time) {
    end.on_segment(now, &Segment { probe: true, flags: flags::ACK, ..Segment::default() });
}

fn told(packet: &Segment) -> Notification {
    let Segment { seq, ack, len, flags, timeouts, probe, .. } = *packet;
    Notification { seq, ack, len, flags, timeouts, probe }
}

fn seqs(segments: &[Segment]) -> Vec<u32> {
    segments.iter().map(|s| s.seq).collect()
}

#[test]
fn nothing_but_the_timer_finds_a_loss_and_only_what_is_missing_is_sent_again() {
    let (mut end, first) = outstanding(config(false), 12);
    let held = (first[1].seq, first[10].seq);
    for upto in 2..=10 {
        ack(&mut end, first[0].seq, &[(first[1].seq, first[upto].seq)]);
    }
    assert!(sent(&mut end, Time::from_us(60)).is_empty(), "nine segments beyond the hole prove nothing");
    assert_eq!(end.poll_timeout(), Some(RTO));
    end.handle_timeout(RTO);
    assert_eq!(end.tx.cwnd(), 1000);
    assert_eq!(seqs(&sent(&mut end, RTO)), [first[0].seq]);
    ack(&mut end, held.1, &[]);
    assert_eq!(seqs(&sent(&mut end, RTO)), seqs(&first[10..]), "slow start goes on with what is left");
    assert!(end.tx.ssthresh() >= 6000);
}

#[test]
fn the_timer_is_fixed_and_after_five_of_them_only_probes_leave() {
    let (mut end, first) = outstanding(config(false), 4);
    let mut now = Time::ZERO;
    for n in 1..=8 {
        let due = end.poll_timeout().unwrap();
        assert_eq!(due, now + RTO, "no back-off");
        now = due;
        end.handle_timeout(now);
        let again = sent(&mut end, now);
        assert_eq!(again.len(), 1);
        assert_eq!((again[0].probe, again[0].len), if n < 5 { (false, 1000) } else { (true, 0) }, "timeout {n}");
    }
    answer(&mut end, now);
    assert_eq!(seqs(&sent(&mut end, now)), [first[0].seq], "slow start");
    assert_eq!(end.tx.counters.probes, 4);
}

#[test]
fn a_lost_packet_of_any_kind_is_repaired() {
    let config = Arc::new(config(false));
    let mut pair = Pair::new(Endpoint::connect(config.clone(), 1), Endpoint::listen(config, 2));
    let mut n = 0;
    pair.tamper(move |_, _| {
        n += 1;
        if n % 3 == 1 {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    pair.client().write(40_000);
    assert!(pair.run(Time::from_secs(1)));
    assert!(pair.drops > 5 && pair.now < Time::from_ms(50), "{}", pair.now);
    assert_eq!(pair.client().tx.counters.fast_retransmits, 0);
}

#[test]
fn with_fastlane_a_probe_goes_first_and_each_success_allows_one_more() {
    let (mut end, first) = outstanding(config(true), 16);
    end.write(50_000);
    for n in [3, 4, 5, 6, 7, 8, 9, 10] {
        end.on_notification(&told(&first[n]));
    }
    let probe = sent(&mut end, Time::from_us(30));
    assert_eq!((probe.len(), probe[0].probe, probe[0].len), (1, true, 0), "no data before the answer");
    assert!(sent(&mut end, Time::from_us(40)).is_empty());
    answer(&mut end, Time::from_us(45));
    assert_eq!(seqs(&sent(&mut end, Time::from_us(45))), [first[3].seq], "one");
    ack(&mut end, first[4].seq, &[]);
    assert_eq!(seqs(&sent(&mut end, Time::from_us(50))), seqs(&first[4..6]), "two");
    ack(&mut end, first[6].seq, &[]);
    assert_eq!(seqs(&sent(&mut end, Time::from_us(50))), seqs(&first[6..10]), "four");
    // One of them is dropped again: from the beginning.
    end.on_notification(&told(&first[7]));
    assert!(sent(&mut end, Time::from_us(55)).iter().all(|s| s.probe));
    answer(&mut end, Time::from_us(60));
    ack(&mut end, first[7].seq, &[(first[8].seq, first[10].seq)]);
    let again = sent(&mut end, Time::from_us(60));
    assert!(again.iter().all(|s| s.len > 0 && !s.probe) && again[0].seq == first[7].seq, "{again:?}");
    ack(&mut end, first[15].seq, &[]);
    assert!(sent(&mut end, Time::from_us(60)).iter().any(|s| s.seq.wrapping_sub(first[15].seq) < 1 << 31), "new data");
    assert_eq!(end.tx.counters.timeouts, 0);
}

#[test]
fn without_probes_what_was_dropped_goes_at_once_half_a_window_at_a_time() {
    let mut config = config(true);
    let options = config.pfabric.unwrap();
    config.pfabric = Some(pfabric::Options { probe_drops: false, ..options });
    let (mut end, first) = outstanding(config, 16);
    end.write(50_000);
    for packet in &first[3..13] {
        end.on_notification(&told(packet));
    }
    assert_eq!(seqs(&sent(&mut end, Time::from_us(30))), seqs(&first[3..11]), "half of 16");
    ack(&mut end, first[4].seq, &[]);
    assert_eq!(
        seqs(&sent(&mut end, Time::from_us(40))),
        seqs(&first[11..13]),
        "one more for what arrived; no new data, no probe"
    );
    ack(&mut end, first[15].seq, &[]);
    assert!(sent(&mut end, Time::from_us(60)).iter().any(|s| s.seq.wrapping_sub(first[15].seq) < 1 << 31), "new data");
    assert_eq!(end.tx.counters.timeouts, 0);
}

#[test]
fn a_dropped_probe_goes_again_and_a_lost_answer_is_left_to_the_timer() {
    let (mut end, first) = outstanding(config(true), 6);
    end.on_notification(&told(&first[2]));
    let probe = sent(&mut end, Time::from_us(30));
    end.on_notification(&told(&probe[0]));
    assert!(sent(&mut end, Time::from_us(40))[0].probe);
    let due = end.poll_timeout().unwrap();
    end.handle_timeout(due);
    let again = sent(&mut end, due);
    assert_eq!(seqs(&again), [first[0].seq]);
    assert!(!again[0].probe);
}

#[test]
fn source_quench_halves_the_window_once_a_round_trip_and_resends_nothing() {
    let plain = Config { recovery: Recovery::NewReno, pfabric: None, quench: true, ..config(false) };
    let (mut end, first) = outstanding(plain.clone(), 20);
    end.on_quench(first[3].seq);
    end.on_quench(first[4].seq);
    end.on_quench(first[19].seq.wrapping_add(5000));
    assert_eq!((end.tx.counters.quenches, end.tx.counters.ecn_reductions), (2, 1));
    assert_eq!((end.tx.ssthresh(), end.tx.ca_state()), (10_000, CaState::Cwr));
    assert!(sent(&mut end, Time::from_us(40)).is_empty());
    assert_eq!(end.tx.counters.retransmitted_packets, 0);

    let (mut end, first) = outstanding(Config { quench: false, ..plain }, 20);
    end.on_quench(first[3].seq);
    assert_eq!((end.tx.counters.quenches, end.tx.ca_state()), (0, CaState::Open));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever a link loses, delays or repeats, and whether drops are told of or not: all bytes arrive.
    #[test]
    fn all_bytes_arrive(fates in prop::collection::vec(0u8..12, 1..80), bytes in 1u64..60_000, fastlane: bool) {
        let config = Arc::new(config(fastlane));
        let mut pair = Pair::new(Endpoint::connect(config.clone(), 1), Endpoint::listen(config, 2));
        pair.tells = fastlane;
        let mut next = 0;
        pair.tamper(move |_, _| {
            next += 1;
            match fates.get(next % 97) {
                Some(0 | 1) => Fate::Drop,
                Some(2) => Fate::Late(Time::from_us(90)),
                Some(3) => Fate::Twice,
                _ => Fate::Pass,
            }
        });
        pair.client().write(bytes);
        prop_assert!(pair.run(Time::from_secs(10)));
        prop_assert_eq!(pair.client().tx.acked(), bytes);
        prop_assert_eq!(pair.client().tx.counters.fast_retransmits, 0);
    }
}
