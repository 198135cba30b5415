//! Buckets, laws and pairs by themselves. Rates in MB/s of an uplink of 1 Gb/s, where the paper has Mb/s.

use crate::hygenicc::{Config, Law};
use crate::native::{
    hyg_bytes, hyg_rests, hyg_schedule, hyg_set_rate, hyg_tick, refuses, Bucket, Hyg, HygConf, HygPair, Part, Uplink,
    HYG_ONE,
};
use proptest::prelude::*;
use units::{BitRate, Time};
use wire::{proto, version, Packet};

const MBPS: u64 = 125_000;

pub(super) fn us(us: u64) -> Time {
    Time::from_us(us)
}

pub(super) fn config(law: Law) -> Config {
    Config { law, ..Config::new(BitRate::from_gbps(1), us(100)) }
}

/// A packet of so many bytes on the wire.
pub(super) fn packet(bytes: u32) -> Packet {
    Packet {
        payload: bytes - 66,
        proto: proto::UDP,
        family: 4,
        ip_header_len: 20,
        l4_header_len: 8,
        wire: version::TWO,
        ..Packet::default()
    }
}

fn active(rate: u64, fair: u64) -> Bucket {
    Bucket { rate: rate * MBPS, fair: fair * MBPS, weight: 1, active: 1, filled: 1, ..Bucket::default() }
}

fn may(b: &mut Bucket, c: &HygConf, bytes: u32, now: Time) -> bool {
    let mut uplink = Uplink { weights: 1 };
    Hyg::new(c, &mut uplink, Some(b), None, None).hold(hyg_bytes(&packet(bytes)), now).is_ok()
}

#[test]
fn a_bucket_is_refilled_once_and_not_credited_for_drops() {
    let c = config(Law::Aiad).conf();
    let mut b = Bucket { filled: us(100).as_ns(), ..active(1000, 1000) };
    assert!(may(&mut b, &c, 1500, us(112)), "12 us at 1 Gb/s");
    assert!(!may(&mut b, &c, 1500, us(123)));
    assert!(!may(&mut b, &c, 1500, us(123)), "no time has passed");
    assert!(may(&mut b, &c, 1500, us(124)), "the drop took nothing");
    may(&mut b, &c, 66, Time::from_secs(30));
    assert_eq!(b.level, 69_934 * 1_000_000_000, "full, less this packet");
    assert!(!may(&mut b, &c, 70_001, Time::from_secs(60)), "larger than the bucket");
}

#[test]
fn a_segment_that_can_wait_is_told_when_it_may_leave() {
    let c = config(Law::Aiad).conf();
    let mut b = active(1000, 1000); // 125 bytes a microsecond
    let start = us(1_000_000).as_ns();
    let mut send = |rate, bytes, at: u64| {
        b.rate = rate * MBPS;
        hyg_schedule(&mut b, &c, 10_000, bytes, start + at).map(|at| at - start)
    };
    assert_eq!(send(1000, 70_000, 0), Some(0), "the bucket");
    assert_eq!(send(1000, 1500, 0), Some(12_000));
    assert_eq!(send(1000, 1500, 0), Some(24_000));
    assert_eq!(send(1000, 1500, 30_000), Some(36_000), "6 us of the rate are there");
    assert_eq!(send(1000, 10_000, 30_000), None, "10,750 bytes would wait");
    assert_eq!(send(1000, 1500, 30_000), Some(48_000), "what was dropped took nothing");
    assert_eq!(send(1000, 1500, 1_000_000), Some(1_000_000), "full again");
    assert_eq!(send(1000, 70_001, 9_000_000), None, "larger than the bucket");
    // A debt is in bytes: at a lower rate it lasts longer, and no longer than that rate does.
    assert_eq!(send(1000, 70_000, 20_000_000), Some(20_000_000));
    assert_eq!(send(10, 5_000, 20_000_000), Some(24_000_000));
    assert_eq!(send(1, 5_000, 20_000_000), Some(100_000_000));
    assert_eq!(send(1000, 1_250, 20_090_000), Some(20_090_000), "10,000 bytes are paid, and these are there");
    assert_eq!(send(1, 15_000, 40_000_000), None, "it would wait for 120 ms");
    assert_eq!(hyg_schedule(&mut Bucket::default(), &c, 10_000, 1, start), None, "without a rate nothing leaves");
}

#[test]
fn a_segment_over_the_rate_is_told_when_to_come_back() {
    let c = config(Law::Aiad).conf();
    let mut b = Bucket { filled: us(100).as_ns(), ..active(1000, 1000) };
    let mut uplink = Uplink { weights: 1 };
    let mut hold = |rate, bytes, now| {
        b.rate = rate * MBPS;
        Hyg::new(&c, &mut uplink, Some(&mut b), None, None).hold(bytes, now)
    };
    assert_eq!(hold(1000, 1500, us(100)), Err(us(112)));
    assert_eq!(hold(10, 1500, us(106)), Err(us(1300)), "the rate has fallen");
    assert_eq!(hold(1000, 1500, us(118)), Ok(()), "and has risen");
    assert_eq!(hold(1000, 70_001, us(118)), Err(Time::MAX), "larger than the bucket");
    assert_eq!(hold(0, 1500, us(118)), Err(Time::MAX));
}

/// The rate after a tick at 10 s.
fn ticked(law: Law, mut b: Bucket, heard: Time) -> u64 {
    let now = Time::from_secs(10);
    let c = config(law).conf();
    (b.heard, b.last, b.filled) = (heard.as_ns(), now.as_ns(), now.as_ns());
    // The fair rate follows from the weights: the rest of the uplink is somebody else's.
    let other = Bucket { weight: 1000 - (b.fair / MBPS) as u32, active: 1, last: now.as_ns(), ..Bucket::default() };
    b.weight = (b.fair / MBPS) as u32;
    let mut buckets = [b, other];
    hyg_tick(&mut buckets, &mut Uplink::default(), &c, now);
    assert_eq!((buckets[0].marks, buckets[0].fair), (0, b.fair), "each tick counts its own");
    buckets[0].rate / MBPS
}

#[test]
fn aiad_follows_algorithm_1() {
    let (recent, long_ago) = (Time::from_us(9_999_900), Time::from_secs(9));
    let rate = |rate, marks, heard| ticked(Law::Aiad, Bucket { marks, ..active(rate, 500) }, heard);
    assert_eq!([rate(300, 20, recent), rate(300, 0, recent), rate(300, 0, long_ago)], [280, 301, 310]);
    assert_eq!([rate(495, 0, long_ago), rate(10, 50, recent)], [500, 1], "the fair rate, and the minimum");
}

/// What a guest finds that has been silent for long, bytes.
fn full(uplink: BitRate, bursts: u32) -> u64 {
    let c = Config { bursts, ..Config::new(uplink, us(100)) }.conf();
    let mut b = Bucket { fair: c.uplink, rate: c.uplink, ..active(0, 0) };
    assert!(may(&mut b, &c, 66, Time::from_secs(2)));
    b.level / 1_000_000_000 + 66
}

#[test]
fn several_intervals_make_a_bucket_of_two_megabytes_at_most() {
    let gbps = BitRate::from_gbps;
    // An interval of 500 us has 62,500 B at 1 Gb/s.
    assert_eq!(
        [0, 1, 20, 32, 1000].map(|bursts| full(gbps(1), bursts)),
        [70_000, 70_000, 1_250_000, 2_000_000, 2_000_000]
    );
    assert_eq!([1, 2].map(|bursts| full(gbps(100), bursts)), [6_250_000; 2], "one is not cut");
    assert_eq!(full(BitRate::from_mbps(40), 500), 1_250_000, "250 ms");
}

/// All of its packets are marked, and there are 10 s of them. Where intervals are short, too few have a packet.
#[test]
fn marks_hold_a_guest_to_half_a_packet_an_interval_and_no_less() {
    const PACKET: u64 = 1538;
    // Of 40 Mb/s, of which it may have 8.
    let rate_after = |interval: Time| {
        let c = Config { interval, ..Config::new(BitRate::from_mbps(40), us(200)) }.conf();
        let mut b = [active(8, 8), Bucket { weight: 4, active: 1, ..Bucket::default() }];
        let (mut now, mut sent) = (Time::from_secs(1), 0);
        while now < Time::from_secs(11) {
            now += interval;
            sent += b[0].rate * interval.as_ns();
            b[0].marks = (sent / (PACKET * 1_000_000_000)) as u32;
            sent %= PACKET * 1_000_000_000;
            b[0].heard = if b[0].marks > 0 { now.as_ns() } else { b[0].heard };
            b.iter_mut().for_each(|b| b.last = now.as_ns());
            hyg_tick(&mut b, &mut Uplink::default(), &c, now);
        }
        b[0].rate as f64 / MBPS as f64
    };
    // Half a packet in 1 ms, and in as long as eight take: a sixteenth of the uplink.
    let [short, long] = [us(1000), us(2460)].map(rate_after);
    assert!((5.5..7.0).contains(&short) && (2.0..3.0).contains(&long), "{short} {long}");
}

/// From the minimum to the uplink: 100 intervals once it is quiet, 1000 while marks are recent.
#[test]
fn a_rate_climbs_by_a_hundredth_or_a_thousandth_of_the_uplink() {
    let c = config(Law::Aiad).conf();
    let intervals = |heard_ago: Time, from: u64, fair: u64| {
        let mut now = Time::from_secs(10);
        let mut b = [Bucket { rate: from * MBPS, fair: fair * MBPS, ..active(from, fair) }];
        for n in 1..2000u64 {
            now += Time::from_ns(c.interval);
            (b[0].last, b[0].heard) = (now.as_ns(), (now - heard_ago).as_ns());
            hyg_tick(&mut b, &mut Uplink::default(), &c, now);
            if b[0].rate == b[0].fair {
                return n;
            }
        }
        panic!("it does not arrive: {b:?}");
    };
    assert_eq!(intervals(Time::from_secs(1), 0, 1000), 100);
    assert_eq!(intervals(Time::from_secs(1), 300, 1000), 70);
    assert_eq!(intervals(Time::from_us(100), 0, 1000), 1000);
}

#[test]
fn alpha_follows_listing_2() {
    let rate = |fair, alpha: u32| {
        let b = Bucket { alpha_sum: u64::from(alpha) * u64::from(HYG_ONE) / 1024, alphas: 1, ..active(fair, fair) };
        ticked(Law::Alpha, b, Time::ZERO)
    };
    assert_eq!([rate(1000, 512), rate(500, 256), rate(250, 1024)], [500, 375, 1]);
    assert_eq!(rate(125, 100), 112, "112.8; in whole Mb/s it is 113");
}

#[test]
fn active_guests_share_by_weight() {
    let c = config(Law::Aiad).conf();
    let now = Time::from_secs(10);
    let fair = |weights: &[u32], idle: Option<usize>| {
        let guest = |&weight| Bucket { weight, active: 1, last: now.as_ns(), ..Bucket::default() };
        // One that was never used has no share.
        let mut b: Vec<Bucket> = weights.iter().map(guest).chain([Bucket { weight: 1, ..Bucket::default() }]).collect();
        if let Some(n) = idle {
            b[n].last = Time::from_secs(9).as_ns();
        }
        hyg_tick(&mut b, &mut Uplink::default(), &c, now);
        b.iter().filter(|b| b.active != 0).map(|b| b.fair / MBPS).collect::<Vec<_>>()
    };
    assert_eq!(fair(&[1; 4], None), [250; 4]);
    assert_eq!(fair(&[1; 4], Some(2)), [333; 3]);
    assert_eq!(fair(&[2, 1], None), [666, 333]);
    assert_eq!(fair(&[4, 2, 1], None), [571, 285, 142]);
}

/// Section 3.1: who sends is active on all uplinks, each of which has a bucket for it and a sum. Listing 1 counts activity by uplink. With the
/// first, nobody else gets what a guest leaves of an uplink that it does not use; edges of this project have one bucket over all uplinks.
#[test]
fn a_guest_has_its_part_of_uplinks_that_it_does_not_use_if_it_is_active_on_all() {
    let now = Time::from_secs(10);
    let (slow, fast) = (config(Law::Aiad).conf(), Config::new(BitRate::from_gbps(10), us(100)).conf());
    // When each of four guests sent last, by each uplink: the first one uses the slow uplink only.
    let tick = |c: &HygConf, last: [Time; 4]| {
        let mut b = last.map(|last| Bucket { weight: 1, active: 1, last: last.as_ns(), ..Bucket::default() });
        hyg_tick(&mut b, &mut Uplink::default(), c, now);
        b.map(|b| (b.active != 0).then_some(b.fair / MBPS))
    };
    let long_ago = Time::from_secs(1);
    assert_eq!(tick(&slow, [now; 4]), [Some(250); 4]);
    assert_eq!(tick(&fast, [now; 4]), [Some(2500); 4], "the text: a quarter is the first one's, and nobody's");
    let by_uplink = tick(&fast, [long_ago, now, now, now]);
    assert_eq!(by_uplink, [None, Some(3333), Some(3333), Some(3333)], "Listing 1");
}

#[test]
fn a_newcomer_has_its_fair_rate_at_once() {
    let c = config(Law::Aiad).conf();
    let mut uplink = Uplink { weights: 3 };
    let mut b = Bucket { weight: 1, ..Bucket::default() };
    assert!(Hyg::new(&c, &mut uplink, Some(&mut b), None, None).hold(1500, Time::ZERO).is_ok());
    assert_eq!((b.rate / MBPS, uplink.weights), (250, 4));
}

#[test]
fn who_is_not_in_the_sum_of_weights_yet_has_the_uplink_at_most() {
    let c = config(Law::Alpha).conf();
    let mut b = Bucket { weight: 65_535, ..active(1, 1) };
    for weights in [0, 1, 65_534, 65_535] {
        hyg_set_rate(&mut b, &Uplink { weights }, &c, us(1));
        assert_eq!((b.rate, b.fair), (1000 * MBPS, 1000 * MBPS), "{weights}");
    }
}

#[test]
fn a_guest_that_was_silent_begins_without_its_past() {
    let c = config(Law::Aiad).conf();
    let idle = Bucket { active: 0, marks: 900, alpha: HYG_ONE, alpha_sum: 9 << 16, alphas: 9, ..active(10, 1000) };
    let mut uplink = Uplink::default();
    let mut b = idle;
    assert!(Hyg::new(&c, &mut uplink, Some(&mut b), None, None).hold(1500, Time::from_secs(5)).is_ok());
    assert_eq!((b.rate / MBPS, b.marks, b.alpha, b.alpha_sum, b.alphas), (1000, 0, 0, 0, 0));
    hyg_tick(std::slice::from_mut(&mut b), &mut uplink, &c, Time::from_secs(5));
    assert_eq!(b.rate / MBPS, 1000, "marks of its past do not lower the rate");
}

#[test]
fn nobody_is_idle_within_an_interval() {
    let c = Config { inactive: us(1), ..config(Law::Aiad) }.conf();
    assert_eq!((c.inactive, c.interval), (500_000, 500_000));
}

/// Alpha after intervals of (packets, marks), in 1/1024, one interval later.
fn alpha(steps: &[(u32, u32)]) -> u32 {
    let c = config(Law::Alpha).conf();
    let mut pair = HygPair::default();
    let (mut uplink, mut count) = (Uplink::default(), 0u16);
    let mut now = Time::from_ms(1);
    let mut stage = |pair: &mut HygPair, sent: u32, marks: u32, now| {
        let mut p = Packet { payload: 1000 * sent, segment_size: 1000, ..packet(1066) };
        let mut stage = Hyg::new(&c, &mut uplink, None, Some(pair), None);
        assert!(sent == 0 || stage.send(&mut p, now));
        count = count.wrapping_add(marks as u16);
        stage.hear(count, now);
    };
    stage(&mut pair, 0, 0, now);
    for &(sent, marks) in steps {
        now += us(500);
        stage(&mut pair, sent, marks, now);
    }
    stage(&mut pair, 1, 0, now + us(500));
    pair.part.alpha * 1024 / HYG_ONE
}

#[test]
fn alpha_is_the_smoothed_marked_part() {
    assert_eq!(alpha(&[(100, 50)]), 32);
    assert_eq!(alpha(&[(100, 50); 200]), 512);
    assert_eq!(alpha(&[(0, 0)]), 0, "nothing was sent");
    let mut faded = vec![(100, 100); 200];
    faded.extend([(0, 0); 16]);
    assert_eq!(alpha(&faded), 364, "15/16 an interval");
}

#[test]
fn marks_of_pairs_that_send_rarely_count() {
    assert_eq!(alpha(&[(9, 0), (0, 9)]), alpha(&[(9, 9), (0, 0)]), "feedback comes an interval later");
    assert_eq!(alpha(&[(9, 0), (0, 0), (0, 9)]), alpha(&[(9, 9), (0, 0), (0, 0)]));
    let rarely = alpha(&[(9, 0), (0, 9), (0, 0)].repeat(100));
    assert_eq!(rarely, alpha(&[(9, 9), (0, 0), (0, 0)].repeat(100)));
    assert!(rarely > 256, "{rarely}: all are marked in one interval of three");
}

/// Alpha of a pair that sends 10 packets in each of 640 intervals, all of them marked, where marks are heard of so many intervals' at once.
fn alpha_of_lumps(keep_marks: bool, intervals: u16) -> Vec<u32> {
    let c = Config { keep_marks, ..config(Law::Alpha) }.conf();
    let (mut pair, mut uplink, mut count) = (HygPair::default(), Uplink::default(), 0);
    let mut alphas = Vec::new();
    for n in 0..640u16 {
        let now = us(1000 + 500 * u64::from(n));
        let mut stage = Hyg::new(&c, &mut uplink, None, Some(&mut pair), None);
        assert!(stage.send(&mut Packet { payload: 10_000, segment_size: 1000, ..packet(1066) }, now));
        if n % intervals == 0 {
            stage.hear(count, now);
        }
        count += 10;
        alphas.push(pair.part.alpha * 1024 / HYG_ONE);
    }
    alphas
}

#[test]
fn marks_that_come_in_lumps_are_as_many_as_those_that_come_one_by_one() {
    for intervals in [1, 4, 20, 90] {
        let kept = alpha_of_lumps(true, intervals);
        assert!(kept[320..].iter().all(|&alpha| alpha > 1000), "{intervals}: {kept:?}");
        let counted = alpha_of_lumps(false, intervals);
        let mean = counted[320..].iter().sum::<u32>() / 320;
        assert!(mean <= 1024 / u32::from(intervals) + 64, "{intervals}: {mean} as the listings count");
    }
}

/// Lumps are bounded: by the packets that were sent since, and in time.
#[test]
fn marks_that_are_kept_count_no_longer_than_alpha_lasts() {
    let c = Config { keep_marks: true, ..config(Law::Alpha) }.conf();
    let part = Part { tick: 1000, sent: 2, marks: 8192, alpha: 0 };
    let mut pair = HygPair { part, ..HygPair::default() };
    let mut send = |tick: u64| {
        let mut uplink = Uplink::default();
        assert!(Hyg::new(&c, &mut uplink, None, Some(&mut pair), None).send(&mut packet(1066), us(500 * tick)));
        pair.part.marks
    };
    assert_eq!([send(1001), send(1002), send(1003)], [192, 96, 95], "96 intervals of what the last one sent");
    assert_eq!(send(1003 + 97), 0, "nor after a time in which alpha has gone");
}

#[test]
fn idle_time_costs_nothing_and_counts_all_the_same() {
    let faded = |gone: u64| {
        let c = config(Law::Alpha).conf();
        let mut pair = HygPair { part: Part { alpha: HYG_ONE, ..Part::default() }, ..HygPair::default() };
        assert!(
            Hyg::new(&c, &mut Uplink::default(), None, Some(&mut pair), None).send(&mut packet(1066), us(500 * gone))
        );
        pair.part.alpha
    };
    let expected = |gone: u32| (0..gone).fold(HYG_ONE, |alpha, _| alpha - (alpha >> 4));
    for gone in [1, 2, 10, 96] {
        assert_eq!(faded(u64::from(gone)), expected(gone), "{gone}");
    }
    assert_eq!(faded(97), 0);
    assert!(expected(97) < HYG_ONE / 400);
}

/// A CPU may take the time, and have its turn only after another that took it later, in the next interval.
#[test]
fn a_packet_that_another_cpu_overtook_leaves_alpha_as_it_is() {
    let c = config(Law::Alpha).conf();
    for start in [us(500), us(500) * 0xffff_fff0, us(500) * 0x8000_0000] {
        let part = Part { alpha: HYG_ONE / 2, tick: (start.as_ns() / c.interval) as u32, sent: 100, marks: 50 };
        let mut pair = HygPair { part, ..HygPair::default() };
        let mut send = |n: u64| {
            let mut p = packet(1066);
            let mut uplink = Uplink::default();
            assert!(Hyg::new(&c, &mut uplink, None, Some(&mut pair), None).send(&mut p, start + us(500 * n)));
            pair.part
        };
        let after = send(1);
        assert_eq!((after.alpha, after.sent), (HYG_ONE / 2, 1));
        assert_eq!(send(0), Part { sent: 2, ..after }, "of the interval that is open");
        assert_eq!(send(1), Part { sent: 3, ..after });
    }
}

#[test]
fn admission_ends_later_than_it_begins() {
    let c = Config { admission: Some((0.5, 0.25)), ..config(Law::Alpha) }.conf();
    let asked = |share: f64, refusing| {
        let part = Part { alpha: (share * f64::from(HYG_ONE)) as u32, ..Part::default() };
        refuses(&part, &c, refusing, Time::ZERO)
    };
    assert_eq!([asked(0.6, false), asked(0.4, false), asked(0.4, true), asked(0.2, true)], [true, false, true, false]);
    assert!(!refuses(&Part { alpha: HYG_ONE, ..Part::default() }, &config(Law::Alpha).conf(), true, Time::ZERO));
}

#[test]
fn admission_ends_even_with_the_least_threshold() {
    let c = Config { admission: Some((0.5, 0.0)), ..config(Law::Alpha) }.conf();
    let part = Part { alpha: HYG_ONE, ..Part::default() };
    assert!(refuses(&part, &c, true, us(500 * 80)));
    assert!(!refuses(&part, &c, true, us(500 * 97)));
    let mut marked = Part { alpha: 15, ..Part::default() };
    assert!(!refuses(&marked, &c, true, us(500)), "alpha never gets below that while packets flow");
    marked.alpha = 66;
    assert!(refuses(&marked, &c, true, Time::ZERO));
}

proptest! {
    /// No guest sends more than its bucket and its rate allow.
    #[test]
    fn a_bucket_never_lets_more_go_than_rate_and_depth(
        sends in proptest::collection::vec((66u32..9_000, 0u64..200), 1..300), bursts in 0u32..=1000,
    ) {
        let c = Config { bursts, ..config(Law::Aiad) }.conf();
        // Of 31,250 B an interval.
        let depth = c.depth.max((31_250 * u64::from(bursts)).min(2_000_000));
        let mut b = Bucket { filled: 0, ..active(100, 500) };
        let (mut now, mut passed) = (Time::ZERO, 0u64);
        for (bytes, pause) in sends {
            now += us(pause);
            passed += if may(&mut b, &c, bytes, now) { u64::from(bytes) } else { 0 };
            prop_assert!(passed <= depth + 100 * MBPS * now.as_ns() / 1_000_000_000 + 1);
        }
    }
}

proptest! {
    /// What a bucket holds after a while, in plain arithmetic: neither sizes nor times decide how exact it is.
    #[test]
    fn a_refill_is_exact(
        interval in prop_oneof![1u64..2_000_000, 1u64..3_000_000_000], fair in 0u64..1 << 37, rate in 0u64..1 << 37,
        gone in prop_oneof![0u64..2_000_000, 0u64..1 << 34], part in 0u64..=1000, bursts in 0u32..=1000, depth in 0u64..4_000_000_000,
    ) {
        let c = HygConf { interval, bursts, depth, ..config(Law::Aiad).conf() };
        let one = fair / 1000 * (interval.min(1_000_000_000) / 1000) / 1000;
        let several = (one * u64::from(bursts)).min(one.max(2_000_000));
        let most = (if bursts == 0 { 0 } else { several }).max(depth).min(1 << 31);
        let full = u128::from(most) * 1_000_000_000;
        let level = (most * part / 1000) * 1_000_000_000;
        let mut b = Bucket { level, filled: 1 << 40, fair, rate, ..Bucket::default() };
        hyg_schedule(&mut b, &c, 0, 0, (1 << 40) + gone);
        prop_assert_eq!(u128::from(b.level), full.min(u128::from(level) + u128::from(gone) * u128::from(rate)));
    }

    /// A guest that is left out at an interval's end stands as if it had not been.
    #[test]
    fn who_rests_is_as_if_its_rate_were_set(
        law in prop_oneof![Just(Law::Aiad), Just(Law::Alpha)], weight in 1u32..4, others in 0u64..4, below in 0u64..3, marks in 0u32..2,
        alpha in 0u32..2, alphas in 0u32..2, level in 0u64..1 << 46, gaps in (1u64..10_000_000, 1u64..10_000_000),
    ) {
        let c = config(law).conf();
        let uplink = Uplink { weights: u64::from(weight) + others };
        let fair = if others == 0 { c.uplink } else { c.uplink * u64::from(weight) / uplink.weights };
        let now = 1u64 << 40;
        let b = Bucket {
            level, filled: now, heard: now, last: now, rate: fair - below.min(1), fair, marks, alpha, alphas, weight, active: 1,
            ..Bucket::default()
        };
        prop_assert_eq!(hyg_rests(&b, &uplink, &c), below == 0 && marks == 0 && alpha == 0 && alphas == 0);
        if hyg_rests(&b, &uplink, &c) {
            let (mut set, mut left) = (b, b);
            hyg_set_rate(&mut set, &uplink, &c, Time::from_ns(now + gaps.0));
            for bucket in [&mut set, &mut left] {
                hyg_schedule(bucket, &c, 0, 0, now + gaps.0 + gaps.1);
            }
            prop_assert_eq!(format!("{set:?}"), format!("{left:?}"));
        }
    }

    /// Whatever the guest sends, what leaves in any time is a bucket and what the rate gives in that time; in the order of arrival, and
    /// nothing waits for longer than the backlog takes.
    #[test]
    fn departures_keep_to_the_rate(sends in proptest::collection::vec((1u64..70_000, 0u64..2_000_000), 1..80), rate in 1u64..1000) {
        let c = config(Law::Aiad).conf();
        let mut b = active(rate, 1000);
        let (mut now, backlog) = (1u64 << 40, 100_000);
        let mut left: Vec<(u64, u64)> = Vec::new();
        for (bytes, gap) in sends {
            now += gap;
            let Some(at) = hyg_schedule(&mut b, &c, backlog, bytes, now) else { continue };
            prop_assert!(at >= now && at - now <= backlog * 1_000_000_000 / b.rate);
            prop_assert!(left.last().is_none_or(|(last, _)| *last <= at));
            left.push((at, bytes));
        }
        for first in 0..left.len() {
            let mut sum = 0;
            for &(at, bytes) in &left[first..] {
                sum += bytes;
                let may = c.depth + (at - left[first].0) * b.rate / 1_000_000_000 + 80;
                prop_assert!(sum <= may, "{sum} of {may}");
            }
        }
    }
}
