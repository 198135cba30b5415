//! Without a tunnel: marks go back as a bit, or as counts in packets of their own.

use super::laws::{config, packet, us};
use crate::hygenicc::{Config, Law};
use crate::native::plain::{self, Flow};
use crate::native::{Bucket, Hyg, HygConf, HygPair, Uplink};
use proptest::prelude::*;
use std::collections::VecDeque;
use units::{Bytes, Time};
use wire::{ecn, proto, version, Packet};

/// `SV_HYG_MAX_CREDIT`
const MAX_CREDIT: u64 = 8192;

fn segment(packets: u32, ecn: u8) -> Packet {
    Packet {
        payload: 1000 * packets,
        segment_size: 1000,
        ecn,
        proto: proto::UDP,
        family: 4,
        wire: version::PLAIN,
        ..packet(1066)
    }
}

fn conf(carry: bool) -> HygConf {
    Config { depth: Bytes(1 << 30), patience: us(100), carry, ..config(Law::Alpha) }.conf()
}

/// Two edges with one guest each. What is on its way back: marks, and by a bit on that many packets or in a packet of its own.
struct Ways {
    conf: HygConf,
    buckets: [Bucket; 2],
    pairs: [HygPair; 2],
    counted: [u64; 2],
    heard: [u64; 2],
    /// On their way to either end: packets, whether the network marks them, the bit; or a count.
    air: [VecDeque<Sent>; 2],
}

#[derive(Clone, Copy, Debug)]
enum Sent {
    Segment { packets: u32, marked: bool, bit: bool },
    Count(u16),
}

impl Ways {
    fn new() -> Ways {
        Ways {
            conf: conf(false),
            buckets: [Bucket { weight: 1, ..Bucket::default() }; 2],
            pairs: Default::default(),
            counted: [0; 2],
            heard: [0; 2],
            air: Default::default(),
        }
    }

    fn with<T>(&mut self, end: usize, f: impl FnOnce(&mut Hyg<'_>) -> T) -> T {
        let mut uplink = Uplink::default();
        f(&mut Hyg::new(&self.conf, &mut uplink, Some(&mut self.buckets[end]), Some(&mut self.pairs[end]), None))
    }

    fn send(&mut self, end: usize, packets: u32, marked: bool, now: Time) {
        let mut p = segment(packets, ecn::NOT_ECT);
        let bit = self.with(end, |h| plain::egress(h, &mut p, now));
        assert_eq!((p.ecn, p.dirty & wire::dirty::ECN != 0), (ecn::ECT0, true));
        self.air[1 - end].push_back(Sent::Segment { packets, marked, bit });
    }

    /// What an end owes goes into a packet of its own, if that has waited for long.
    fn tell(&mut self, end: usize, now: Time) {
        if self.pairs[end].overdue(&self.conf, now) {
            let count = plain::asks(&mut self.pairs[end], now);
            self.air[1 - end].push_back(Sent::Count(count));
        }
    }

    fn owed(&self, end: usize) -> u64 {
        u64::from(self.pairs[end].owed_count.wrapping_sub(self.pairs[end].owed_told))
    }

    /// The next of what is on its way arrives.
    fn arrive(&mut self, end: usize, now: Time) {
        let before = self.pairs[end].credit;
        match self.air[end].pop_front() {
            None => return,
            Some(Sent::Count(count)) => self.with(end, |h| plain::hear(h, count.into(), now)),
            Some(Sent::Segment { packets, marked, bit }) => {
                if bit {
                    self.with(end, |h| plain::hear(h, packets, now));
                }
                let p = segment(packets, if marked { ecn::CE } else { ecn::ECT0 });
                let owed = self.owed(end);
                self.with(end, |h| plain::ingress(h, &p, now));
                self.counted[end] += self.owed(end) - owed;
            }
        }
        self.heard[end] += u64::from(before - self.pairs[end].credit);
    }

    /// Marks on their way to an end.
    fn in_the_air(&self, end: usize) -> u64 {
        let of = |sent: &Sent| match sent {
            Sent::Segment { packets, bit: true, .. } => u64::from(*packets),
            Sent::Segment { .. } => 0,
            Sent::Count(count) => u64::from(*count),
        };
        self.air[end].iter().map(of).sum()
    }
}

#[test]
fn a_segment_has_the_bit_if_all_of_its_packets_pay() {
    let mut ways = Ways::new();
    for _ in 0..3 {
        ways.send(0, 1, true, us(1));
        ways.arrive(1, us(2));
    }
    ways.send(1, 4, false, us(3));
    assert_eq!((ways.in_the_air(0), ways.owed(1)), (0, 3), "four packets would pay four");
    ways.send(1, 2, false, us(4));
    assert_eq!((ways.in_the_air(0), ways.owed(1)), (2, 1));
    ways.tell(1, us(5));
    assert_eq!(ways.owed(1), 1, "not for long yet");
    ways.tell(1, us(200));
    assert_eq!((ways.in_the_air(0), ways.owed(1)), (3, 0));
    (0..3).for_each(|_| ways.arrive(0, us(201)));
    assert_eq!(ways.heard, [3, 0]);
}

#[test]
fn ipv6_has_no_bit() {
    let mut ways = Ways::new();
    ways.send(0, 1, true, us(1));
    ways.arrive(1, us(2));
    let mut p = Packet { family: 6, ..segment(1, ecn::NOT_ECT) };
    assert!(!ways.with(1, |h| plain::egress(h, &mut p, us(3))));
    assert_eq!(ways.owed(1), 1);
}

#[test]
fn what_does_not_leave_is_owed_again() {
    let mut ways = Ways::new();
    ways.send(0, 5, true, us(1));
    ways.arrive(1, us(2));
    let count = plain::asks(&mut ways.pairs[1], us(3));
    assert_eq!((count, ways.owed(1)), (5, 0));
    plain::give_back(&mut ways.pairs[1], count.into());
    assert_eq!(ways.owed(1), 5);
    plain::give_back(&mut ways.pairs[1], 1 << 20);
    assert_eq!(ways.owed(1), 0x7fff, "and not more than there is room for");
}

#[test]
fn forged_feedback_costs_what_was_sent() {
    let mut ways = Ways::new();
    ways.air[0].push_back(Sent::Count(u16::MAX));
    ways.arrive(0, us(1));
    assert_eq!(ways.heard[0], 0, "nothing was sent");
    ways.send(0, 7, false, us(2));
    for forged in [Sent::Count(u16::MAX), Sent::Segment { packets: 40, marked: false, bit: true }] {
        ways.air[0].push_back(forged);
        ways.arrive(0, us(3));
    }
    assert_eq!(ways.heard[0], 7);
    (0..500).for_each(|_| ways.send(0, 40, false, us(4)));
    ways.air[0].push_back(Sent::Count(u16::MAX));
    ways.arrive(0, us(5));
    assert_eq!(ways.heard[0], 7 + MAX_CREDIT);
}

#[test]
fn a_packet_of_feedback_is_never_a_mark() {
    let mut ways = Ways::new();
    let p = Packet { proto: crate::hygenicc::PROTO, payload: 0, ..segment(1, ecn::CE) };
    ways.with(1, |h| plain::ingress(h, &p, us(1)));
    assert_eq!(ways.owed(1), 0);
}

/// Codepoint of the guest, on the wire, and shown without and with a mark.
#[test]
fn what_guests_see_of_ecn() {
    let through = |carry: bool, sent: u8, marked: bool, flow: Option<&mut Flow>| {
        let mut ways = Ways { conf: conf(carry), ..Ways::new() };
        let mut p = segment(1, sent);
        ways.with(0, |h| plain::egress(h, &mut p, us(1)));
        let wire = p.ecn;
        let was = if marked { ecn::CE } else { wire };
        let mut p = segment(1, was);
        plain::show(&ways.conf, flow, was, &mut p);
        assert_eq!(p.dirty & wire::dirty::ECN != 0, p.ecn != was);
        (wire, p.ecn)
    };
    use ecn::{CE, ECT0, ECT1, NOT_ECT};
    for sent in [NOT_ECT, ECT0, ECT1] {
        assert_eq!(through(false, sent, false, None), (ECT0, ECT0), "{sent}");
        assert_eq!(through(false, sent, true, Some(&mut Flow::default())), (ECT0, NOT_ECT), "{sent}");
        assert_eq!(through(false, sent, true, None), (ECT0, ECT0), "{sent}: as other fragments of its datagram");
    }
    assert_eq!(through(false, CE, false, None), (CE, ECT0));
    let mut flow = Flow::default();
    assert_eq!(through(true, NOT_ECT, false, Some(&mut flow)), (ECT1, NOT_ECT));
    assert_eq!(through(true, NOT_ECT, true, Some(&mut flow)), (ECT1, NOT_ECT));
    assert_eq!(through(true, ECT0, false, Some(&mut flow)), (ECT0, ECT0));
    assert_eq!(through(true, ECT0, true, Some(&mut flow)), (ECT0, ECT0), "as without the mark");
    assert_eq!(through(true, ECT1, false, Some(&mut flow)), (ECT0, ECT0));
    assert_eq!(through(true, ECT0, true, None), (ECT0, NOT_ECT), "of no flow that is remembered");
}

proptest! {
    #[test]
    fn the_bit_leaves_the_rest_of_its_word_alone(word: u16, bit: bool) {
        let changed = plain::word(word, bit);
        prop_assert_eq!((changed & 0x7fff, changed & 0x8000 != 0), (word & 0x7fff, bit));
    }

    /// Both guests send, or one; some packets are marked, and some of what comes back is lost. Every mark that was counted was heard of, is
    /// owed, on its way, or was lost with a packet.
    #[test]
    fn all_marks_are_accounted_for(
        steps in prop::collection::vec((0u8..6, 1u32..44, any::<bool>()), 1..400),
        loses: bool,
        one_way: bool,
    ) {
        let mut ways = Ways::new();
        let (mut lost, mut now) = ([0u64; 2], us(1));
        for (what, packets, marked) in steps {
            now += us(10);
            let end = usize::from(what & 1 != 0 && !one_way);
            match what {
                // Within the credit: what exceeds it is not believed, as of forged feedback.
                0 | 1 if u64::from(ways.pairs[end].credit) + 44 <= MAX_CREDIT => ways.send(end, packets, marked, now),
                2 | 3 => (0..packets % 4).for_each(|_| ways.arrive(usize::from(what & 1 != 0), now)),
                4 => [0, 1].into_iter().for_each(|end| ways.tell(end, now)),
                _ if loses => {
                    let at = usize::from(marked);
                    let before = ways.in_the_air(at);
                    ways.air[at].pop_front();
                    lost[at] += before - ways.in_the_air(at);
                }
                _ => {}
            }
        }
        // At last everything that is owed is told.
        for _ in 0..2 {
            now += Time::from_ms(1);
            for end in [0, 1] {
                while !ways.air[end].is_empty() {
                    ways.arrive(end, now);
                }
            }
            now += Time::from_ms(1);
            [0, 1].into_iter().for_each(|end| ways.tell(end, now));
        }
        for end in [0, 1] {
            while !ways.air[end].is_empty() {
                ways.arrive(end, now);
            }
            prop_assert_eq!(ways.heard[end] + lost[end], ways.counted[1 - end], "to {}", end);
        }
        prop_assert!(loses || lost == [0, 0]);
    }
}
