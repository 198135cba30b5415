//! Marks are accounted for: what a receiver counts is what the sender hears of.

use super::laws::{config, packet, us};
use crate::hygenicc::{Config, Law};
use crate::native::{hyg_tick, pay, Bucket, Conf, Hyg, HygConf, HygPair, Uplink};
use crate::Balance;
use proptest::prelude::*;
use std::collections::VecDeque;
use units::{Bytes, Time};
use wire::feedback::{Feedback, MARKS};
use wire::{ecn, version, Packet};

/// `SV_HYG_MAX_CREDIT` and `SV_HYG_MAX_DEBT`
const MAX_CREDIT: u64 = 8192;
const MAX_DEBT: u32 = 4096;

fn segment(packets: u32, marked: bool) -> Packet {
    Packet { payload: 1000 * packets, segment_size: 1000, marked: u8::from(marked), ecn: ecn::NOT_ECT, ..packet(1066) }
}

/// One direction of a pair: a sender, and a receiver that counts.
struct Way {
    conf: HygConf,
    bucket: Bucket,
    here: HygPair,
    there: HygPair,
    /// Counts on their way back.
    back: VecDeque<u16>,
}

impl Way {
    fn new() -> Way {
        let bucket = Bucket { weight: 1, ..Bucket::default() };
        let (here, there) = (HygPair::default(), HygPair::default());
        // Rates are none of its business.
        let conf = Config { depth: Bytes(1 << 30), ..config(Law::Alpha) }.conf();
        Way { conf, bucket, here, there, back: VecDeque::new() }
    }

    /// The receiver has counted before, and the sender knows where it is.
    fn begun(start: u16) -> Way {
        let mut way = Way::new();
        (way.there.owed_count, way.there.owed_told, way.there.introduced) = (start, start, 1);
        way.back.push_back(start);
        way.hear(0, us(1));
        way
    }

    fn send(&mut self, packets: u32, marked: bool, now: Time) -> u16 {
        let mut p = segment(packets, false);
        let mut uplink = Uplink::default();
        assert!(Hyg::new(&self.conf, &mut uplink, Some(&mut self.bucket), Some(&mut self.here), None).send(&mut p, now));
        assert_eq!(p.outer_ecn, ecn::ECT0);
        let before = self.there.owed_count;
        Hyg::new(&self.conf, &mut uplink, None, Some(&mut self.there), None).ingress(&segment(packets, marked), now);
        self.there.owed_count.wrapping_sub(before)
    }

    /// A packet of the pair leaves in the other direction.
    fn answer(&mut self, now: Time) {
        let conf = Conf { idle_ns: 0, balance: Balance::ecmp().conf(false) };
        let told = pay(&conf, None, Some(&mut self.there), now, &Packet { wire: version::TWO, ..Packet::default() });
        if let Feedback { kind: MARKS, path, value } = told {
            self.back.push_back(u16::from_be_bytes([path, value]));
        }
    }

    /// The `n`-th of the counts that are on their way arrives, or the last. Returns how many marks it reported.
    fn hear(&mut self, n: usize, now: Time) -> u64 {
        if self.back.is_empty() {
            return 0;
        }
        let count = self.back.remove(n.min(self.back.len() - 1)).unwrap_or_default();
        let before = self.here.credit;
        let mut uplink = Uplink::default();
        Hyg::new(&self.conf, &mut uplink, Some(&mut self.bucket), Some(&mut self.here), None).hear(count, now);
        u64::from(before - self.here.credit)
    }
}

#[test]
fn the_first_count_is_where_counting_begins() {
    let mut way = Way::new();
    way.there = HygPair { owed_count: 500, owed_told: 500, introduced: 1, ..HygPair::default() };
    way.send(100, true, us(1));
    way.answer(us(1));
    assert_eq!(way.hear(0, us(2)), 0, "600, of which nobody knows how many are this sender's");
    way.send(9, true, us(3));
    way.answer(us(3));
    assert_eq!(way.hear(0, us(4)), 9);
}

#[test]
fn a_new_receiver_says_where_it_begins() {
    let mut way = Way::new();
    assert_eq!(way.send(7, true, us(1)), 7);
    way.answer(us(1));
    way.answer(us(1));
    assert_eq!(way.back, [0, 7]);
    assert_eq!([way.hear(0, us(2)), way.hear(0, us(2))], [0, 7]);
}

#[test]
fn an_old_count_is_no_sixty_thousand_marks() {
    let mut way = Way::new();
    for _ in 0..3000 {
        way.send(40, false, us(1));
    }
    assert_eq!(u64::from(way.here.credit), MAX_CREDIT, "credit does not grow for ever");
    way.back.extend([0, 103, 100, 104]);
    let heard: u64 = (0..4).map(|_| way.hear(0, us(2))).sum();
    assert_eq!(heard, 104);
}

/// Two CPUs: the older count was taken up 3 ms earlier, and has its turn later.
#[test]
fn a_count_whose_time_another_cpu_has_overtaken_is_no_restart() {
    let mut way = Way::new();
    for _ in 0..10 {
        way.send(40, false, us(1));
    }
    let [now, then] = [Time::from_ms(1000), Time::from_ms(997)];
    way.back.extend([0, 200, 150, 201]);
    let heard: u64 = [now, now, then, now].into_iter().map(|at| way.hear(0, at)).sum();
    assert_eq!(heard, 201, "each mark once");
}

/// Nobody may send the packet that is asked for, or it is lost: then the pair's next packet has the count.
#[test]
fn a_count_that_somebody_is_asked_to_tell_goes_with_the_next_packet_too() {
    let mut way = Way::new();
    way.send(7, true, us(1));
    way.answer(us(1)); // where it begins
    let late = us(1) + Time::from_ms(1);
    assert!(way.there.overdue(&way.conf, late));
    assert_eq!(way.there.asks(), 7);
    assert!(!way.there.overdue(&way.conf, late * 2), "it is asked once");
    way.answer(late);
    assert_eq!(way.back, [0, 7]);
    assert!(!way.there.owes());
    // What is marked later waits for its own time.
    way.there.asks();
    way.send(1, true, late * 2);
    assert!(!way.there.overdue(&way.conf, late * 2));
    assert!(way.there.overdue(&way.conf, late * 3));
}

#[test]
fn a_great_debt_waits_for_no_timer() {
    let c = config(Law::Alpha).conf();
    let owes = |owed_count| HygPair { owed_count, since: 1, ..HygPair::default() }.overdue(&c, us(2));
    assert_eq!([owes(0), owes(1), owes(MAX_DEBT as u16 - 1), owes(MAX_DEBT as u16)], [false, false, false, true]);
}

proptest! {
    /// Without loss on the way back every mark is heard of, once: whatever overtakes whatever, and although counts wrap.
    #[test]
    fn all_marks_are_accounted_for(
        steps in prop::collection::vec((1u32..44, 0u8..4, any::<bool>(), 0usize..4), 1..400),
        times in 1u32..40,
        start in any::<u16>(),
    ) {
        let mut way = Way::begun(start);
        let (mut counted, mut heard) = (0u64, 0u64);
        let mut now = Time::from_ms(1);
        for _ in 0..times {
            for &(packets, marked, answered, overtakes) in &steps {
                now += us(500);
                counted += u64::from(way.send(packets, marked > 0, now));
                if answered || way.there.overdue(&way.conf, now) {
                    way.answer(now);
                }
                while way.back.len() > 4 || (answered && !way.back.is_empty()) {
                    heard += way.hear(overtakes, now);
                }
            }
        }
        way.answer(now);
        while !way.back.is_empty() {
            heard += way.hear(0, now);
        }
        prop_assert_eq!(heard, counted);
        prop_assert!(u64::from(way.bucket.marks) == counted);
    }

    /// Counts are cumulative: the next one that arrives tells what lost ones told, whatever overtakes whatever.
    #[test]
    fn feedback_that_is_lost_loses_no_marks(
        steps in prop::collection::vec((1u32..44, 0u8..4, any::<bool>(), 0usize..4, 0u8..3), 1..400),
        times in 1u32..20,
        start in any::<u16>(),
    ) {
        let mut way = Way::begun(start);
        let (mut counted, mut heard, mut lost) = (0u64, 0u64, 0u64);
        let mut now = Time::from_ms(1);
        for (packets, marked, answered, overtakes, luck) in (0..times).flat_map(|_| steps.iter().copied()) {
            now += us(500);
            counted += u64::from(way.send(packets, marked > 0, now));
            let told = way.there.owed_told;
            if answered || way.there.overdue(&way.conf, now) {
                way.answer(now);
            }
            // Beyond its credit an edge believes nothing.
            if luck == 0 && counted - heard + 44 <= MAX_CREDIT && way.there.owed_told != told {
                way.back.pop_back();
                lost += u64::from(way.there.owed_told.wrapping_sub(told));
            }
            while way.back.len() > 4 || (answered && !way.back.is_empty()) {
                heard += way.hear(overtakes, now);
            }
            prop_assert!(heard <= counted);
            let waits = u64::from(way.there.owed_count.wrapping_sub(way.there.owed_told));
            // What is on its way may be all of it.
            prop_assert!(!way.back.is_empty() || counted - heard <= lost + waits, "{} {} {}", counted, heard, lost);
        }
        while !way.back.is_empty() {
            heard += way.hear(0, now);
        }
        counted += u64::from(way.send(1, true, now));
        way.answer(now);
        heard += way.hear(0, now);
        prop_assert_eq!(heard, counted, "of them {} in lost packets", lost);
    }

    /// While nothing comes back for long, marks are lost that lost packets told, and those of the first that arrives again.
    #[test]
    fn an_outage_loses_what_was_told_meanwhile(
        before in 1u32..2000,
        steps in prop::collection::vec((1u32..44, any::<bool>()), 1..4000),
        start in any::<u16>(),
    ) {
        let mut way = Way::begun(start);
        let (mut counted, mut heard, mut lost, mut now) = (u64::from(way.send(before, true, us(2))), 0, 0u64, us(2));
        way.answer(now);
        heard += way.hear(0, now);
        prop_assert_eq!(heard, counted);
        for (packets, marked) in steps {
            now += us(500);
            let fresh = u64::from(way.send(packets, marked, now));
            way.answer(now);
            way.back.clear();
            (counted, lost) = (counted + fresh, lost + fresh);
        }
        let last = u64::from(way.send(7, true, now));
        way.answer(now);
        let told = way.hear(0, now);
        (counted, heard) = (counted + last, heard + told);
        prop_assert!(heard <= counted && counted - heard <= lost + last, "{} {} {}", counted, heard, lost);
        prop_assert!(lost + last > MAX_CREDIT || told == lost + last, "{} {}", told, lost);
        // From then on none are.
        let fresh = u64::from(way.send(40, true, now));
        way.answer(now);
        prop_assert_eq!(way.hear(0, now), fresh);
    }

    /// When either end restarts, the marks that were not told yet are lost, and none appear.
    #[test]
    fn a_restart_loses_what_was_untold_and_adds_nothing(
        steps in prop::collection::vec((1u32..44, any::<bool>(), any::<bool>(), 0u8..40), 1..400),
    ) {
        let mut way = Way::new();
        let (mut counted, mut heard, mut untold) = (0u64, 0u64, 0u64);
        let (mut lost, mut forgot) = (0, false);
        let mut now = Time::from_ms(1);
        for (packets, marked, answered, restart) in steps {
            now += us(500);
            match restart {
                0 => {
                    // A receiver is away for longer than packets are.
                    now += Time::from_ms(70);
                    way.there = HygPair::default();
                    lost += untold;
                    untold = 0;
                }
                1 => {
                    way.here = HygPair::default();
                    forgot = true;
                }
                _ => {}
            }
            let fresh = u64::from(way.send(packets, marked, now));
            (counted, untold) = (counted + fresh, untold + fresh);
            if answered {
                way.answer(now);
                way.answer(now);
                let told = way.hear(0, now) + way.hear(0, now);
                prop_assert!(told <= untold);
                heard += told;
                // The first count says nothing to a sender that has forgotten, nor of packets that it has forgotten.
                lost += if forgot { untold - told } else { 0 };
                (untold, forgot) = (0, way.here.told_heard == 0);
            }
        }
        prop_assert!(heard <= counted);
        prop_assert!(counted - heard <= lost + untold, "{counted} {heard} {lost} {untold}");
    }

    /// Whatever anybody claims, rates stay between the minimum and the fair rate, and marks within what was sent.
    #[test]
    fn forged_feedback_keeps_rates_within_bounds(
        alpha in any::<bool>(),
        weights in prop::collection::vec(1u32..=65_535, 1..8),
        steps in prop::collection::vec((0usize..8, any::<u16>(), 0u32..60, any::<bool>(), 0u64..5_000), 1..200),
    ) {
        let law = if alpha { Law::Alpha } else { Law::Aiad };
        let c = config(law).conf();
        let mut uplink = Uplink::default();
        let mut buckets: Vec<Bucket> = weights.iter().map(|&weight| Bucket { weight, ..Bucket::default() }).collect();
        let mut pairs = vec![HygPair::default(); weights.len()];
        let (mut now, mut sent, mut heard) = (Time::ZERO, 0u64, 0u64);
        for (guest, count, segments, tick, pause) in steps {
            let n = guest % weights.len();
            now += us(pause);
            let mut stage = Hyg::new(&c, &mut uplink, Some(&mut buckets[n]), Some(&mut pairs[n]), None);
            if stage.send(&mut segment(segments, false), now) {
                sent += u64::from(segments.max(1));
            }
            let before = pairs[n].credit;
            Hyg::new(&c, &mut uplink, Some(&mut buckets[n]), Some(&mut pairs[n]), None).hear(count, now);
            heard += u64::from(before - pairs[n].credit);
            if tick {
                hyg_tick(&mut buckets, &mut uplink, &c, now);
            }
            for b in buckets.iter().filter(|b| b.active != 0) {
                prop_assert!(b.rate <= b.fair && b.rate >= c.least.min(b.fair), "{:?}", b);
                prop_assert!(b.fair <= c.uplink);
            }
        }
        prop_assert!(heard <= sent);
    }
}
