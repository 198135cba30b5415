//! The edge as its driver sees it, with FastLane alone.

mod stamps;

use super::*;
use crate::{DropReason, Edge, Transmit, Verdict};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use wire::v4;

const MSS: u32 = 1000;
const GUEST: [u8; 4] = [10, 0, 0, 1];
const PEER: [u8; 4] = [10, 0, 0, 2];
/// Of the handshake, and so the first sample.
const RTT: Time = Time::from_us(100);
const ISS: u32 = 5000;
const IRS: u32 = 9000;

/// A guest behind an edge, and what the edge's driver keeps.
struct Bench {
    edge: Edge,
    now: Time,
    slots: u32,
    kept: BTreeMap<u32, Packet>,
    acks: Vec<Packet>,
    /// The connection's: address of the guest, of its peer, and the guest's port.
    guest: [u8; 4],
    peer: [u8; 4],
    port: u16,
    /// Of what was sent again since the last look.
    again_of: Vec<([u32; 4], [u32; 4], u16)>,
    /// Timestamp of what is sent from now on, and those that what was sent again was to have.
    stamp: Option<u32>,
    stamps: Vec<Option<u32>>,
}

/// A packet sent again: sequence number, payload.
type Again = (u32, u32);

impl Bench {
    fn new(config: Config) -> Bench {
        let edge = Edge::new(crate::Config { fastlane: Some(config), ..crate::Config::default() });
        Bench {
            edge,
            now: Time::from_ms(1),
            slots: 0,
            kept: BTreeMap::new(),
            acks: Vec::new(),
            guest: GUEST,
            peer: PEER,
            port: 1000,
            again_of: Vec::new(),
            stamp: None,
            stamps: Vec::new(),
        }
    }

    /// Of which connection what follows is.
    fn choose(&mut self, (guest, peer, port): ([u8; 4], [u8; 4], u16)) {
        (self.guest, self.peer, self.port) = (guest, peer, port);
    }

    /// With an open connection whose window field is unscaled.
    fn open() -> Bench {
        let mut bench = Bench::new(Config::default());
        bench.handshake();
        bench
    }

    fn handshake(&mut self) {
        self.send(Packet { tcp_flags: tcp::SYN, seq: ISS, ack: 0, mss: MSS as u16, ..self.outgoing() });
        self.now += RTT;
        self.receive(Packet {
            tcp_flags: tcp::SYN | tcp::ACK,
            seq: IRS,
            ack: ISS + 1,
            mss: MSS as u16,
            ..self.incoming()
        });
    }

    fn outgoing(&self) -> Packet {
        Packet {
            saddr: v4(self.guest),
            daddr: v4(self.peer),
            sport: self.port,
            dport: 80,
            proto: proto::TCP,
            family: 4,
            tcp_flags: tcp::ACK,
            ack: IRS + 1,
            window: 60_000,
            ip_header_len: 20,
            l4_header_len: 20,
            ..Packet::default()
        }
    }

    fn incoming(&self) -> Packet {
        let p = self.outgoing();
        Packet { saddr: p.daddr, daddr: p.saddr, sport: p.dport, dport: p.sport, seq: IRS + 1, ack: ISS + 1, ..p }
    }

    fn send(&mut self, mut packet: Packet) -> Verdict {
        self.slots += 1;
        let before = packet;
        let known = crate::Known { stamp: self.stamp, ..crate::Known::default() };
        let out = crate::Direction::Egress;
        let verdict = self.edge.process_known(self.now, out, Slot(self.slots), &mut packet, known);
        if let Some(slot) = self.edge.poll_kept() {
            assert_eq!(slot, Slot(self.slots));
            assert_eq!(verdict, Verdict::Forward);
            assert!(self.kept.insert(slot.0, before).is_none());
        }
        verdict
    }

    /// `packets` of payload from packet `first` on, as one segment.
    fn data(&mut self, first: u32, packets: u32) -> Verdict {
        let segment_size = if packets > 1 { MSS as u16 } else { 0 };
        self.send(Packet { seq: at(first), payload: packets * MSS, segment_size, ..self.outgoing() })
    }

    fn receive(&mut self, mut packet: Packet) -> Packet {
        let verdict = self.edge.process(self.now, crate::Direction::Ingress, Slot(0), &mut packet);
        assert_eq!(verdict, Verdict::Forward);
        assert_eq!(self.drain(), [], "an ACK has nothing sent again");
        packet
    }

    /// The peer has everything before packet `next`; `blocks` of SACK.
    fn ack(&mut self, next: u32, blocks: u8) -> Packet {
        let l4_header_len = if blocks == 0 { 20 } else { 24 + 8 * blocks };
        self.receive(Packet { ack: at(next), l4_header_len, ..self.incoming() })
    }

    /// Of packet `n`.
    fn notification(&self, n: u32) -> Packet {
        let p = self.outgoing();
        Packet { saddr: p.daddr, daddr: p.saddr, seq: at(n), payload: MSS, truncated: 1, ..p }
    }

    fn notify(&mut self, notification: Packet) -> Vec<Again> {
        self.edge.notified(self.now, &notification);
        self.drain()
    }

    fn dropped(&mut self, n: u32) -> Vec<Again> {
        self.notify(self.notification(n))
    }

    /// Does what a driver does, and returns what it sends again.
    fn drain(&mut self) -> Vec<Again> {
        let mut again = Vec::new();
        while let Some(Resend { slot, index, stamp }) = self.edge.poll_resend() {
            let mut packet = self.kept[&slot.0];
            let size = u32::from(packet.segment_size);
            packet.seq += index * size;
            packet.payload = if size == 0 { packet.payload } else { (packet.payload - index * size).min(size) };
            packet.segment_size = 0;
            again.push((packet.seq, packet.payload));
            self.stamps.push(stamp);
            self.again_of.push((packet.saddr, packet.daddr, packet.sport));
            self.slots += 1;
            assert_eq!(self.edge.process_resent(self.now, Slot(self.slots), &mut packet, None), Verdict::Forward);
            assert_eq!(self.edge.poll_kept(), None, "the edge's own packets are not kept again");
        }
        while let Some(slot) = self.edge.poll_forgotten() {
            assert!(self.kept.remove(&slot.0).is_some(), "forgotten once");
        }
        while let Some(Transmit { dir, packet }) = self.edge.poll_transmit(self.now) {
            assert_eq!(dir, crate::Direction::Ingress);
            self.acks.push(packet);
        }
        again
    }

    fn wait(&mut self, time: Time) -> Vec<Again> {
        self.now += time;
        self.edge.handle_timeout(self.now);
        self.drain()
    }

    fn counters(&self) -> Counters {
        self.edge.counters().fastlane
    }
}

/// The sequence number of packet `n`.
fn at(n: u32) -> u32 {
    ISS + 1 + n * MSS
}

/// Another segment may soon be kept under the same slot, and must not be sent in its place.
#[test]
fn what_the_driver_cannot_keep_gets_no_help() {
    let mut bench = Bench::open();
    bench.data(0, 2);
    let newest = Slot(bench.slots);
    bench.kept.remove(&newest.0);
    bench.edge.cannot_keep(newest);
    bench.data(2, 2);
    assert_eq!(bench.dropped(1), []);
    assert_eq!(bench.counters().unkept, 1);
    assert_eq!(bench.dropped(2), [(at(2), MSS)], "the next segment");
    bench.ack(4, 0);
    assert!(bench.kept.is_empty());
}

#[test]
fn a_dropped_packet_is_sent_again_at_once_and_only_once() {
    let mut bench = Bench::open();
    bench.data(0, 10);
    assert_eq!(bench.dropped(3), [(at(3), MSS)]);
    assert_eq!(bench.dropped(3), [], "the same notification again");
    assert_eq!(bench.dropped(9), [(at(9), MSS)], "the tail");
    bench.now += RTT * 10;
    assert_eq!(bench.dropped(9), [(at(9), MSS)], "its copy was dropped as well");
    let c = bench.counters();
    assert_eq!((c.notifications, c.resent, c.postponed), (4, 3, 1));
}

#[test]
fn a_dropped_copy_is_sent_again_as_many_round_trips_later_as_there_were() {
    let mut bench = Bench::open();
    bench.data(0, 10);
    assert_eq!(bench.dropped(9).len(), 1);
    bench.now += RTT / 4;
    assert_eq!(bench.dropped(9), [], "the copy was dropped too, so soon");
    assert_eq!(bench.dropped(9), [], "and told of again");
    let due = bench.edge.poll_timeout().unwrap();
    assert_eq!(due, Time::from_ms(1) + RTT + RTT, "a round trip after the copy");
    assert_eq!(bench.wait(RTT / 4), []);
    assert_eq!(bench.wait(RTT / 2), [(at(9), MSS)]);
    assert_eq!(bench.wait(RTT * 100), []);
    let c = bench.counters();
    assert_eq!((c.resent, c.postponed, c.repeated, c.resent_later), (1, 1, 1, 1));
    // Long after, it may go at once; then it waits for three round trips.
    assert_eq!(bench.dropped(9), [(at(9), MSS)]);
    assert_eq!(bench.dropped(9), []);
    assert_eq!(bench.wait(RTT * 3 - Time::from_ns(1)), []);
    assert_eq!(bench.wait(Time::from_ns(1)), [(at(9), MSS)]);
}

#[test]
fn what_waits_is_forgotten_once_it_is_acknowledged() {
    let mut bench = Bench::open();
    bench.data(0, 4);
    bench.dropped(0);
    bench.dropped(0);
    bench.ack(4, 0);
    assert_eq!(bench.wait(RTT * 100), []);
    assert!(bench.kept.is_empty());
}

#[test]
fn a_later_copy_of_the_guest_makes_a_notification_stale() {
    let mut bench = Bench::open();
    bench.data(0, 4);
    bench.now += RTT * 10;
    assert_eq!(bench.data(2, 1), Verdict::Forward, "the guest's timeout");
    assert_eq!(bench.dropped(2), [], "that was the first copy");
    assert_eq!(bench.dropped(2), [(at(2), MSS)], "that was the second");
    assert_eq!(bench.counters().stale, 1);
    // Sent again as part of something larger, it counts as well.
    bench.data(0, 2);
    assert_eq!(bench.dropped(1), []);
    assert_eq!(bench.counters().stale, 2);
}

#[test]
fn what_is_sent_again_together_with_new_bytes_counts() {
    let mut bench = Bench::open();
    bench.data(0, 4);
    for _ in 0..4 {
        bench.ack(0, 1);
    }
    assert_eq!(bench.dropped(0), [], "the guest repairs it");
    assert_eq!(bench.data(0, 6), Verdict::Forward);
    assert_eq!(bench.dropped(1), [], "that was the first copy");
    assert_eq!(bench.dropped(1), [(at(1), MSS)], "that was the second");
    assert_eq!(bench.dropped(0), [(at(0), MSS)], "what repaired it was dropped, too");
    assert_eq!(bench.dropped(5), [(at(5), MSS)], "new then");
    let c = bench.counters();
    assert_eq!((c.left, c.stale, c.repeated, c.resent), (1, 1, 0, 3));
}

#[test]
fn a_packet_of_old_and_new_bytes_waits_for_no_other() {
    for early in [false, true] {
        let mut bench = Bench::open();
        bench.data(0, 1);
        let part = Packet { seq: at(1), payload: 400, ..bench.outgoing() };
        bench.send(part);
        let told = Packet { payload: 400, ..bench.notification(1) };
        if early {
            assert_eq!(bench.notify(told), [(at(1), 400)]);
            bench.now += RTT / 2;
        }
        assert_eq!(bench.data(1, 1), Verdict::Forward, "with 600 new bytes");
        if early {
            assert_eq!(bench.dropped(1), [], "a round trip after the edge's own copy");
            assert_eq!(bench.wait(RTT / 2), [(at(1), MSS)]);
        } else {
            assert_eq!(bench.dropped(1), [(at(1), MSS)]);
        }
        assert_eq!(bench.notify(told), [], "two more had these bytes");
    }
}

#[test]
fn too_much_that_is_sent_again_before_new_bytes_gets_no_help_and_these_do() {
    let mut bench = Bench::open();
    bench.data(0, 2);
    bench.send(Packet { seq: at(0), payload: 3 * MSS, segment_size: 8, ..bench.outgoing() });
    assert_eq!(bench.dropped(0), []);
    assert_eq!(bench.counters().unkept, 1);
    let new = Packet { seq: at(2), payload: 8, ..bench.notification(2) };
    assert_eq!(bench.notify(new), [(at(2), 8)]);
}

#[test]
fn what_is_sent_again_in_too_many_packets_gets_no_help() {
    for (segment_size, help) in [(8, vec![]), (500, vec![(at(1), MSS)])] {
        let mut bench = Bench::open();
        bench.data(0, 4);
        bench.dropped(0);
        bench.wait(RTT * 2);
        bench.send(Packet { seq: at(2), payload: 2 * MSS, segment_size, ..bench.outgoing() });
        assert_eq!(bench.dropped(1), help, "{segment_size}");
    }
}

#[test]
fn a_guest_does_not_repeat_what_the_edge_has_just_sent_again() {
    let mut bench = Bench::open();
    bench.data(0, 10);
    bench.dropped(3);
    bench.now += RTT / 2;
    assert_eq!(bench.data(3, 1), Verdict::Drop(DropReason::UnderWay));
    assert_eq!(bench.data(3, 2), Verdict::Forward, "this one has more");
    assert_eq!(bench.data(4, 1), Verdict::Forward, "another packet");
    bench.now += RTT;
    assert_eq!(bench.data(3, 1), Verdict::Forward, "a round trip has passed");
    assert_eq!(bench.counters().suppressed, 1);
}

#[test]
fn what_is_not_outstanding_or_was_never_sent_is_ignored() {
    let mut bench = Bench::open();
    bench.data(0, 4);
    bench.ack(1, 0);
    let good = bench.notification(1);
    type Count = fn(&Counters) -> u64;
    let ignored: [(Packet, Count); 11] = [
        (bench.notification(0), |c| c.acked),
        (bench.notification(4), |c| c.outside),
        (Packet { payload: MSS - 1, ..good }, |c| c.outside),
        (Packet { seq: good.seq + 1, ..good }, |c| c.outside),
        (Packet { tcp_flags: tcp::ACK | tcp::FIN, ..good }, |c| c.outside),
        (Packet { payload: 2 * MSS, ..good }, |c| c.outside),
        (Packet { ack: IRS + 2, ..good }, |c| c.outside),
        (Packet { ack: IRS.wrapping_sub(1 << 25), ..good }, |c| c.outside),
        (Packet { payload: 0, ..good }, |c| c.empty),
        (Packet { sport: 1001, ..good }, |c| c.untracked),
        (Packet { saddr: good.daddr, daddr: good.saddr, ..good }, |c| c.untracked),
    ];
    for (n, (notification, counter)) in ignored.into_iter().enumerate() {
        let before = counter(&bench.counters());
        assert_eq!(bench.notify(notification), [], "{n}");
        assert_eq!(counter(&bench.counters()), before + 1, "{n}");
    }
    assert_eq!(bench.notify(good), [(at(1), MSS)]);
}

#[test]
fn a_guest_without_sack_is_told_where_the_receiver_holds_something_above_the_hole() {
    for (packets, duplicates, blocks, told) in [
        (4, 1, 0, true),
        (4, 2, 0, true),
        (3, 1, 0, false), // too few outstanding
        (4, 0, 0, false), // nothing above is known to have arrived
        (4, 1, 1, false), // SACK
    ] {
        let mut bench = Bench::open();
        bench.data(0, packets);
        for _ in 0..duplicates {
            bench.ack(0, blocks);
        }
        let duplicates_before = bench.edge.counters().fastlane;
        assert_eq!(duplicates_before.told, 0);
        let again = bench.dropped(0);
        let case = (packets, duplicates, blocks);
        assert_eq!(again.is_empty(), told, "{case:?}");
        assert_eq!(bench.acks.len(), if told { 3 } else { 0 }, "{case:?}");
        for ack in &bench.acks {
            assert_eq!((ack.ack, ack.seq, ack.payload, ack.tcp_flags), (at(0), IRS + 1, 0, tcp::ACK));
            assert_eq!((ack.saddr, ack.dport, ack.window), (v4(PEER), 1000, 60_000), "{case:?}");
        }
    }
}

#[test]
fn after_three_duplicates_the_guest_is_left_alone() {
    let mut bench = Bench::open();
    bench.data(0, 8);
    for _ in 0..4 {
        bench.ack(0, 1);
    }
    assert_eq!(bench.dropped(0), []);
    assert_eq!(bench.counters().left, 1);
    assert_eq!(bench.dropped(7), [(at(7), MSS)], "of the tail the guest cannot know");
}

#[test]
fn handshake_and_end_are_sent_again() {
    let mut bench = Bench::new(Config::default());
    let syn = Packet { tcp_flags: tcp::SYN, seq: ISS, ack: 0, mss: MSS as u16, ..bench.outgoing() };
    bench.send(syn);
    let told = Packet { saddr: syn.daddr, daddr: syn.saddr, ..syn };
    assert_eq!(bench.notify(told), [(ISS, 0)]);
    let mut bench = Bench::open();
    bench.data(0, 1);
    let fin = Packet { tcp_flags: tcp::FIN | tcp::ACK, seq: at(1), ..bench.outgoing() };
    bench.send(fin);
    let told = Packet { saddr: fin.daddr, daddr: fin.saddr, ..fin };
    assert_eq!(bench.notify(told), [(at(1), 0)]);
}

#[test]
fn a_drop_halves_the_window_once_and_the_bound_ends() {
    let mut bench = Bench::open();
    bench.data(0, 20);
    assert_eq!(bench.ack(0, 0).window, 60_000);
    bench.dropped(3);
    bench.dropped(4);
    assert_eq!(bench.ack(1, 0).window, 10_000 + 100, "half of 20 packets, and what one ACK adds");
    bench.dropped(5);
    bench.ack(20, 0);
    bench.data(20, 11);
    let window = u32::from(bench.ack(21, 0).window);
    assert!((11 * MSS..13 * MSS).contains(&window), "it grows by a segment a round trip: {window}");
    for n in 3..30 {
        bench.data(n * 11, 11);
        bench.ack(n * 11 + 11, 0);
    }
    assert_eq!(bench.ack(330, 0).window, 60_000, "and ends where it was");
}

#[test]
fn the_store_is_bounded_by_guest_and_in_all_and_empties_with_acknowledgements() {
    let mut bench = Bench::new(Config { per_guest: Bytes(5_000), in_all: Bytes(6_000) });
    bench.handshake();
    bench.data(0, 1);
    bench.data(1, 3);
    bench.data(4, 1);
    assert_eq!(bench.kept.len(), 2, "SYN forgotten, 1256 and 3256 bytes kept, and no room for the third");
    assert_eq!(bench.dropped(4), []);
    assert_eq!(bench.counters().unkept, 1);
    assert_eq!(bench.dropped(3), [(at(3), MSS)]);
    bench.ack(5, 0);
    assert!(bench.kept.is_empty());
    bench.data(5, 4);
    assert_eq!(bench.kept.len(), 1);
    assert!(bench.counters().store_max <= 5_000);
}

#[test]
fn an_idle_flow_keeps_nothing() {
    let mut bench = Bench::open();
    bench.data(0, 4);
    bench.now += Time::from_secs(100);
    bench.edge.end_batch(bench.now);
    bench.drain();
    assert!(bench.kept.is_empty());
    assert_eq!(bench.dropped(0), []);
    assert_eq!(bench.counters().untracked, 1);
}

const CONNECTION: ([u8; 4], [u8; 4], u16) = (GUEST, PEER, 1000);
const OTHERS: [([u8; 4], [u8; 4], u16); 3] =
    [(GUEST, PEER, 2000), ([10, 0, 0, 3], PEER, 1000), (GUEST, [10, 0, 0, 4], 1000)];

/// What happens to the guest's connection.
#[derive(Clone, Debug)]
enum Step {
    Send { packets: u32 },
    Again { at: u32, packets: u32 },
    Ack { by: u32, blocks: u8 },
    Wait { us: u64 },
    Notify { at: u32, off: i32, payload: u32, port: u16 },
    Replay,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1u32..12).prop_map(|packets| Step::Send { packets }),
        1 => (0u32..40, 1u32..4).prop_map(|(at, packets)| Step::Again { at, packets }),
        3 => (0u32..12, 0u8..4).prop_map(|(by, blocks)| Step::Ack { by, blocks }),
        2 => (1u64..400).prop_map(|us| Step::Wait { us }),
        6 => (0u32..40, -1i32..2, prop_oneof![8 => Just(MSS), 1 => Just(0), 1 => any::<u32>()], prop_oneof![9 => Just(1000u16), 1 => Just(1001u16)])
            .prop_map(|(at, off, payload, port)| Step::Notify { at, off: if off < 0 { -1 } else { 0 }, payload, port }),
        2 => Just(Step::Replay),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Forged, replayed and reordered notifications: nothing is sent again that is not outstanding, nothing twice within a round trip,
    /// nothing of the other connection, and the store holds what is outstanding and no more.
    #[test]
    fn no_notification_makes_the_edge_send_more_than_it_may(steps in prop::collection::vec(step(), 1..120)) {
        let mut bench = Bench::new(Config { per_guest: Bytes(40_000), in_all: Bytes(60_000) });
        bench.handshake();
        // Connections with the same numbers that nobody notifies of: of another port, of another tenant's guest to the same peer and from
        // the same port, and to another peer.
        for other in OTHERS {
            bench.choose(other);
            bench.handshake();
            bench.data(0, 3);
        }
        bench.choose(CONNECTION);
        let (mut una, mut nxt) = (0, 0);
        let mut last = None;
        let mut latest: BTreeMap<u32, Time> = BTreeMap::new();
        for step in steps {
            let again = match step {
                Step::Send { packets } if nxt - una < 50 => {
                    bench.data(nxt, packets);
                    nxt += packets;
                    Vec::new()
                }
                Step::Send { .. } => Vec::new(),
                Step::Again { at, packets } => {
                    let first = una + at % (nxt - una + 1);
                    let end = (first + packets).min(una + 50);
                    if first < end {
                        bench.data(first, end - first);
                        nxt = nxt.max(end); // it may have had new ones, too
                    }
                    Vec::new()
                }
                Step::Ack { by, blocks } => {
                    una = (una + by).min(nxt);
                    bench.ack(una, blocks);
                    Vec::new()
                }
                Step::Wait { us } => bench.wait(Time::from_us(us)),
                Step::Notify { at: n, off, payload, port } => {
                    let told = bench.notification(una + n);
                    let told = Packet { seq: told.seq.wrapping_add_signed(off), payload, sport: port, ..told };
                    last = Some(told);
                    bench.notify(told)
                }
                Step::Replay => last.map(|told| bench.notify(told)).unwrap_or_default(),
            };
            let of = (v4(GUEST), v4(PEER), 1000);
            prop_assert!(bench.again_of.drain(..).all(|one| one == of), "nobody else's");
            for (seq, payload) in again {
                prop_assert!(seq >= at(una) && seq + payload <= at(nxt), "outstanding");
                prop_assert_eq!((payload, (seq - at(0)) % MSS), (MSS, 0), "a packet of the guest's");
                // The least round trip that the edge assumes.
                let before = latest.insert(seq, bench.now);
                prop_assert!(before.is_none_or(|before| bench.now >= before + Time::from_us(10)));
            }
            let of_guest = bench.kept.values().filter(|p| p.saddr == v4(GUEST));
            let held: u64 = of_guest.map(|p| u64::from(p.payload) + 256).sum();
            prop_assert!(held <= 40_000);
            let unacked = bench.kept.values().filter(|p| (p.saddr, p.daddr, p.sport) == of);
            prop_assert!(unacked.clone().all(|p| p.seq + p.payload > at(una)));
            let ends: BTreeSet<u32> = unacked.clone().map(|p| p.seq + p.payload).collect();
            prop_assert_eq!(ends.len(), unacked.count(), "kept once");
        }
        let c = bench.counters();
        let acted = c.resent + c.told + c.left + c.postponed;
        let ignored = c.untracked + c.empty + c.acked + c.outside + c.stale + c.repeated + c.unkept;
        prop_assert_eq!(c.notifications, acted + ignored, "each is counted once");
        prop_assert!(c.resent_later <= c.postponed);
        // The others are as they were: what they have outstanding is kept, their windows are whole, and a drop of theirs is a first one.
        let acks = bench.acks.len();
        let told = |p: &Packet| (p.daddr, p.saddr, p.dport) == (v4(GUEST), v4(PEER), 1000);
        prop_assert!(bench.acks.iter().all(told), "nobody else is told");
        for other in OTHERS {
            bench.choose(other);
            let of = (v4(other.0), v4(other.1), other.2);
            prop_assert_eq!(bench.kept.values().filter(|p| (p.saddr, p.daddr, p.sport) == of).count(), 1);
            prop_assert_eq!(bench.ack(1, 0).window, 60_000);
            prop_assert_eq!(bench.dropped(2), [(at(2), MSS)]);
        }
        prop_assert_eq!(bench.acks.len(), acks);
    }

    /// Any bytes in a notification's fields.
    #[test]
    fn any_notification_is_refused_or_about_a_packet_that_was_sent(
        seq: u32, ack: u32, payload: u32, flags: u8, sport: u16, truncated in 0u8..2,
    ) {
        let mut bench = Bench::open();
        bench.data(0, 8);
        let told = Packet { seq, ack, payload, tcp_flags: flags, sport, truncated, ..bench.notification(0) };
        let again = bench.notify(told);
        prop_assert!(again.is_empty() || again == [(seq, MSS)]);
        prop_assert_eq!(bench.counters().notifications, 1);
    }
}

#[test]
fn room_is_given_back_exactly() {
    let mut room = Room::new(100, 150, 2);
    let (a, b) = (v4(GUEST), v4(PEER));
    assert!(room.take(&a, 60) && !room.take(&a, 41) && room.take(&b, 90) && !room.take(&a, 1));
    room.give_back(&b, 90);
    room.give_back(&a, 60);
    assert!(room.take(&a, 100));
    assert!(room.take_copy() && room.take_copy() && !room.take_copy());
    room.give_back_copies(2);
    assert_eq!((room.held(), room.most()), ((100, 0), 150));
}
