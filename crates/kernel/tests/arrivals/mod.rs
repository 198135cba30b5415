//! Guests that come and go: how soon the loaded program gives them their shares, by the clock that these tests set. Nothing here waits.

use crate::fabric::in_namespace;
use crate::world::World;
use crate::{NUMBER, TC_ACT_SHOT};
use conformance::Script;
use edge::hygenicc::{Bucket, Config, Law};
use edge::Direction;
use kernel::{Role, Segment};
use units::{BitRate, Bytes, Time};

const INTERVAL: Time = Time::from_us(500);
/// In each step both may send. One is a tenth of an interval.
const STEP: Time = Time::from_us(50);
/// Of a datagram of 1,000 bytes, on the wire in the tunnel.
const PACKET: u64 = 1116;
/// Index of the loopback device, which stands for the neighbour's port, and the neighbour's share.
const BESIDE: u32 = 1;
const BESIDES: u16 = NUMBER - 1;
/// Share of a third guest, where a test has one: its port is the uplink's device.
const THIRDS: u16 = NUMBER - 2;

/// The guest and its neighbour on one host, and perhaps a third guest: floods of datagrams to one peer.
struct Guests<'a> {
    world: &'a World,
    now: Time,
    /// What each offers in a step, bytes, and what of it is less than a packet.
    offer: u64,
    rest: [u64; 3],
    frames: [Vec<u8>; 3],
    link: Option<Link>,
}

/// A link behind the uplink, with a queue that marks, and what its far end counts.
struct Link {
    /// Bytes that it carries in a step.
    carries: u64,
    queue: u64,
    marks: [u16; 2],
    /// Marks as the peer knew them when it told of them last: what it tells next.
    tells: [u16; 2],
}

impl Link {
    const THRESHOLD: u64 = 12_000;
    const BUFFER: u64 = 60_000;

    /// False if it has no room for the guest's packet.
    fn takes(&mut self, guest: usize) -> bool {
        if self.queue + PACKET > Link::BUFFER {
            return false;
        }
        self.marks[guest] = self.marks[guest].wrapping_add(u16::from(self.queue > Link::THRESHOLD));
        self.queue += PACKET;
        true
    }
}

fn frame(line: &str) -> Vec<u8> {
    let script = Script::parse("lines", &format!("config balance=hash\n{line} => forward"));
    script.unwrap_or_else(|e| panic!("{e}")).cases.remove(0).frame
}

/// Both share `uplink`; each offers 1.2 times `link`. The clock stands at 1 s.
fn with_guests(name: &str, law: Law, uplink: BitRate, link: Option<BitRate>, test: impl FnOnce(Guests<'_>) + Send) {
    let change = |c: &mut Config| {
        (c.law, c.keep_marks, c.interval) = (law, true, INTERVAL);
        (c.uplink, c.minimum) = (uplink, BitRate::from_bps(uplink.as_bps() / 1000));
        c.depth = Bytes(20_000);
    };
    let Some(world) = crate::world(name, 1, change) else { return };
    let edge = world.edge();
    let port = edge.port(BESIDE).unwrap().unwrap();
    edge.set_port(BESIDE, &port.with_share(BESIDES, 1)).unwrap();
    let in_step = |rate: BitRate| rate.as_bps() / 8 * STEP.as_ns() / 1_000_000_000;
    let frames = ["to=two ports=1000>80", "of=neighbour to=two ports=1000>80", "to=two ports=1001>80"]
        .map(|addresses| frame(&format!("egress udp4 {addresses} payload=1000")));
    let link = link.map(|rate| Link { carries: in_step(rate), queue: 0, marks: [0; 2], tells: [0; 2] });
    let offer = link.as_ref().map_or(in_step(uplink), |link| link.carries) * 6 / 5;
    in_namespace(&world.fabric.host(0), || {
        // The peer must be known to speak version 2, or no packet asks for marks.
        world.run(Direction::Ingress, &frame("ingress udp4 from=two of=two ports=80>1000 speaks2 version=1"));
        test(Guests { world: &world, now: Time::from_secs(1), offer, rest: [0; 3], frames, link });
    });
}

impl Guests<'_> {
    fn bucket(&self, guest: usize) -> Bucket {
        self.world.edge().share([NUMBER, BESIDES, THIRDS][guest]).unwrap().unwrap().bucket
    }

    /// A third guest if there are three of them. Weights hold from the next packets on.
    fn weigh(&self, weights: &[u16]) {
        for ((ifindex, number), weight) in self.ports().into_iter().zip([NUMBER, BESIDES, THIRDS]).zip(weights) {
            let port = self.world.edge().port(ifindex).unwrap().unwrap_or_else(|| {
                let own = self.world.edge().port(self.world.port).unwrap();
                own.expect("the guest's")
            });
            self.world.edge().set_port(ifindex, &port.with_share(number, *weight)).unwrap();
        }
    }

    fn ports(&self) -> [u32; 3] {
        [self.world.port, BESIDE, self.world.uplink]
    }

    /// False if its share drops it.
    fn send(&self, guest: usize) -> bool {
        let segment = Segment { ifindex: self.ports()[guest], ..Segment::default() };
        let ran = self.world.edge().test_run_segment(Role::Guest, &self.frames[guest], segment);
        ran.unwrap().0 != TC_ACT_SHOT
    }

    /// The peer tells each guest's edge of the marks that it knew of the last time.
    fn tell(&mut self) {
        let Some(link) = &mut self.link else { return };
        for (who, count) in ["guest", "neighbour"].iter().zip(std::mem::replace(&mut link.tells, link.marks)) {
            let [high, low] = count.to_be_bytes();
            let told = format!("version=2 feedback=3:{high}:{low}");
            let line = format!("ingress udp4 from=two of=two to={who} ports=80>1000 {told}");
            self.world.run(Direction::Ingress, &frame(&line));
        }
    }

    /// An interval, at whose end rates are set. What each brought through its share, and through the link if there is one, bytes.
    fn interval(&mut self, sends: [bool; 3]) -> [u64; 3] {
        let mut got = [0; 3];
        for step in 0..INTERVAL.as_ns() / STEP.as_ns() {
            self.now += STEP;
            self.world.set_time(self.now);
            for guest in [0, 1, 2] {
                self.rest[guest] += if sends[guest] { self.offer } else { 0 };
                while self.rest[guest] >= PACKET {
                    self.rest[guest] -= PACKET;
                    let passed = self.send(guest) && self.link.as_mut().is_none_or(|link| link.takes(guest));
                    got[guest] += if passed { PACKET } else { 0 };
                }
            }
            if let Some(link) = &mut self.link {
                link.queue -= link.queue.min(link.carries);
            }
            if step % 2 == 1 {
                self.tell();
            }
        }
        self.world.edge().set_rates().unwrap();
        got
    }

    /// The means over so many intervals, as parts of `of`, bytes in an interval.
    fn parts(&mut self, intervals: u32, sends: [bool; 3], of: u64) -> [f64; 3] {
        let mut sum = [0; 3];
        for _ in 0..intervals {
            let got = self.interval(sends);
            sum = [sum[0] + got[0], sum[1] + got[1], sum[2] + got[2]];
        }
        sum.map(|bytes| bytes as f64 / (u64::from(intervals) * of) as f64)
    }
}

const ALL: [bool; 3] = [true; 3];
const BOTH: [bool; 3] = [true, true, false];
const ALONE: [bool; 3] = [true, false, false];

#[test]
fn a_newcomer_has_its_fair_rate_within_an_interval_and_a_leavers_goes_to_the_others() {
    /// Of the uplink, bytes per second, and in an interval.
    const RATE: u64 = 12_500_000;
    const WHOLE: u64 = 6_250;
    for (name, law) in [("ar", Law::Aiad), ("as", Law::Alpha)] {
        with_guests(name, law, BitRate::from_mbps(100), None, |mut guests| {
            guests.parts(20, ALONE, WHOLE);
            let [first, ..] = guests.parts(20, ALONE, WHOLE);
            assert!((0.95..1.05).contains(&first), "{law:?}: {first} of the uplink, alone");
            guests.send(1);
            let bucket = guests.bucket(1);
            assert_eq!((bucket.rate, bucket.fair), (RATE / 2, RATE / 2), "{law:?}: with its first packet");
            let [_, second, _] = guests.interval(BOTH);
            assert!(second >= WHOLE / 2, "{law:?}: {second} bytes in the first interval");
            assert_eq!(guests.bucket(0).rate, RATE / 2, "{law:?}: the other one's, when that has ended");
            // Until a newcomer's bucket is empty it may have more.
            guests.parts(20, BOTH, WHOLE);
            for part in &guests.parts(40, BOTH, WHOLE)[..2] {
                assert!((0.475..0.525).contains(part), "{law:?}: {part} of the uplink");
            }
            let mut intervals = 0;
            while guests.bucket(0).fair != RATE {
                let [part, ..] = guests.parts(1, ALONE, WHOLE);
                intervals += 1;
                assert!(intervals <= 2001, "{law:?}: {intervals} intervals are more than a second and one");
                assert!(part < 0.75, "{law:?}: {part} while the other one's part is its own");
            }
            assert!(intervals >= 1999, "{law:?}: {intervals} intervals are less than a second");
            // By steps the rate follows in 50 more: a hundredth of the uplink each.
            let most = if law == Law::Aiad { 50 } else { 0 };
            let mut climb = 0;
            while guests.bucket(0).rate != RATE {
                assert!(climb < most, "{law:?}: {:?}", guests.bucket(0));
                guests.interval(ALONE);
                climb += 1;
            }
            let [first, ..] = guests.parts(40, ALONE, WHOLE);
            assert!((0.95..1.05).contains(&first), "{law:?}: {first} of the uplink, alone again");
        });
    }
}

#[test]
fn guests_that_send_share_the_uplink_by_weight() {
    /// Of the uplink, in an interval.
    const WHOLE: u64 = 6_250;
    for (name, law) in [("av", Law::Aiad), ("aw", Law::Alpha)] {
        with_guests(name, law, BitRate::from_mbps(100), None, |mut guests| {
            for (weights, sends) in [(&[2, 1][..], BOTH), (&[4, 2, 1], ALL)] {
                guests.weigh(weights);
                // Until buckets are empty, and in time for rates that climb by steps.
                guests.parts(100, sends, WHOLE);
                let parts = guests.parts(200, sends, WHOLE);
                println!("{law:?}, {weights:?}: {parts:.3?}");
                let sum: u16 = weights.iter().sum();
                for (part, weight) in parts.iter().zip(weights) {
                    let fair = f64::from(*weight) / f64::from(sum);
                    assert!((part / fair - 1.0).abs() < 0.05, "{law:?}, {weights:?}: {parts:?}");
                }
            }
        });
    }
}

/// The guests' fair rates are as much as the link carries: only marks tell of it.
#[test]
fn a_newcomer_soon_has_its_share_of_a_congested_link() {
    /// What the link carries in an interval.
    const WHOLE: u64 = 25_000;
    /// Intervals over which shares are means.
    const SPAN: u32 = 32;
    let (uplink, link) = (BitRate::from_mbps(800), Some(BitRate::from_mbps(400)));
    for (name, law, within) in [("at", Law::Aiad, 600), ("au", Law::Alpha, 64)] {
        with_guests(name, law, uplink, link, |mut guests| {
            guests.parts(200, ALONE, WHOLE);
            let [first, ..] = guests.parts(100, ALONE, WHOLE);
            assert!(first > 0.8, "{law:?}: {first} of the link, alone");
            let shares: Vec<[f64; 3]> = (0..(within + 200) / SPAN).map(|_| guests.parts(SPAN, BOTH, WHOLE)).collect();
            let from = within.div_ceil(SPAN) as usize;
            let soon = shares.iter().rposition(|[_, second, _]| *second < 0.4).map_or(0, |n| n + 1);
            println!("{law:?}: 0.8 of its share and more from interval {} on: {shares:.2?}", soon as u32 * SPAN);
            assert!(soon <= from, "{law:?}: {shares:.2?}");
            assert!(
                shares[from..].iter().all(|[first, second, _]| *first > 0.3 && first + second > 0.8),
                "{shares:.2?}"
            );
        });
    }
}
