//! CoDel (RFC 8289): queue management by how long packets have waited. One control law a port, over all of its queues.

use crate::packet::{PacketId, Packets};
use aqm::codel::{Law, Queue, Taken};
use units::Time;

/// CoDel's parameters. The RFC's 5 ms and 100 ms are for the Internet: 128 KB at 10 Gbps drain in 105 us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codel {
    /// Waiting that is acceptable as a standing queue.
    pub target: Time,
    /// How long packets may wait longer before something is done: about a round trip of the slowest flow.
    pub interval: Time,
    /// Packets that cannot be marked are dropped, as in the RFC; otherwise they pass.
    pub drop: bool,
}

impl Default for Codel {
    /// RFC 8289, section 4.
    fn default() -> Codel {
        let aqm::Codel { target, interval, .. } = aqm::Codel::default();
        Codel { target, interval, drop: true }
    }
}

/// What becomes of a packet that the law picks out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Marked,
    Dropped,
    Passed,
}

/// The state of one port.
#[derive(Clone, Debug)]
pub(crate) struct State {
    config: Codel,
    law: Law,
}

/// What [`State::pop`] has done besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Picked {
    pub marked: u64,
    /// Octets that have left the queue without being sent, and the sum of them times the time that they waited, in byte-picoseconds.
    pub dropped_bytes: u64,
    pub dropped_byte_time: u128,
}

/// A port as the law sees it.
struct Port<'a, T, S> {
    now: u64,
    packets: &'a mut Packets,
    take: T,
    seen: S,
    backlog: u64,
    drop: bool,
    picked: Picked,
}

impl<T: FnMut(&mut Packets) -> Option<PacketId>, S: FnMut(PacketId, Fate)> Queue for Port<'_, T, S> {
    type Item = PacketId;

    fn take(&mut self) -> Option<Taken<PacketId>> {
        let id = (self.take)(self.packets)?;
        let hop = self.packets.hop(id);
        let bytes = u64::from(hop.wire_len);
        self.backlog -= bytes;
        Some(Taken { item: id, since: Time::from_ps(hop.at_ps), bytes, left: self.backlog })
    }

    fn pick(&mut self, id: PacketId) -> Option<PacketId> {
        let fate = match mark(id, self.packets) {
            true => Fate::Marked,
            false if self.drop => Fate::Dropped,
            false => Fate::Passed,
        };
        match fate {
            Fate::Marked => self.picked.marked += 1,
            Fate::Dropped => {
                let hop = self.packets.hop(id);
                self.picked.dropped_bytes += u64::from(hop.wire_len);
                self.picked.dropped_byte_time +=
                    u128::from(hop.wire_len) * u128::from(self.now.saturating_sub(hop.at_ps));
            }
            Fate::Passed => {}
        }
        (self.seen)(id, fate);
        (fate != Fate::Dropped).then_some(id)
    }
}

impl State {
    pub(crate) fn new(config: Codel) -> State {
        State { config, law: Law::default() }
    }

    /// The packet to send at `now`. `take` yields the next of the queue, `backlog` is what the port holds in octets before,
    /// `seen` gets all packets that the law picks out, of which the dropped ones are the caller's to free.
    pub(crate) fn pop(
        &mut self,
        now: u64,
        backlog: u64,
        packets: &mut Packets,
        take: impl FnMut(&mut Packets) -> Option<PacketId>,
        seen: impl FnMut(PacketId, Fate),
    ) -> (Option<PacketId>, Picked) {
        let Codel { target, interval, drop } = self.config;
        let mut port = Port { now, packets, take, seen, backlog, drop, picked: Picked::default() };
        let sent = self.law.pop(&aqm::Codel { target, interval, mtu: None }, Time::from_ps(now), &mut port);
        (sent, port.picked)
    }
}

/// Marks a packet that may be marked; says whether it may.
pub(crate) fn mark(id: PacketId, packets: &mut Packets) -> bool {
    packets.body_mut(id).headers.mark_ce()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Packet;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    const US: u64 = 1_000_000;
    const LAW: Codel = Codel { target: Time::from_us(20), interval: Time::from_us(200), drop: true };

    /// A queue that the law serves.
    struct Queue {
        state: State,
        packets: Packets,
        waiting: VecDeque<PacketId>,
        seen: Vec<(u64, Fate)>,
    }

    impl Queue {
        fn new(config: Codel) -> Queue {
            let (packets, waiting, seen) = (Packets::default(), VecDeque::new(), Vec::new());
            Queue { state: State::new(config), packets, waiting, seen }
        }
        fn push(&mut self, at: u64, ect: bool) {
            let headers = wire::Packet { ecn: if ect { wire::ecn::ECT0 } else { 0 }, ..wire::Packet::default() };
            let id = self.packets.add(Packet { wire_len: 1000, headers, ..Packet::default() });
            self.packets.hop_mut(id).at_ps = at;
            self.waiting.push_back(id);
        }
        /// Sends one; true if there was one.
        fn pop(&mut self, now: u64) -> bool {
            let backlog = 1000 * self.waiting.len() as u64;
            let (waiting, seen) = (&mut self.waiting, &mut self.seen);
            let (id, picked) = self.state.pop(
                now,
                backlog,
                &mut self.packets,
                |_| waiting.pop_front(),
                |_, fate| seen.push((now, fate)),
            );
            let left = 1000 * self.waiting.len() as u64;
            assert_eq!(backlog, left + picked.dropped_bytes + if id.is_some() { 1000 } else { 0 });
            id.is_some()
        }
        /// One packet each 10 us comes in, and each has waited for `wait` us when it is sent.
        fn standing(&mut self, wait: u64, ect: bool, sent: u64) {
            for n in 0..wait / 10 {
                self.push(10 * n * US, ect);
            }
            for n in wait / 10..sent {
                self.push(10 * n * US, ect);
                self.pop(10 * n * US);
            }
        }
        fn times(&self) -> Vec<u64> {
            self.seen.iter().map(|(at, _)| at / US).collect()
        }
    }

    #[test]
    fn a_standing_queue_is_marked_after_an_interval_and_then_ever_more_often() {
        let mut queue = Queue::new(LAW);
        queue.standing(100, true, 120);
        // The first packet that has waited too long leaves at 100 us; at 300 the interval is over. Then 200/sqrt(n) us apart,
        // at the next packet: 500, 641.4, 756.9, 856.9, 946.3, 1028, 1103.6, 1174.3.
        assert_eq!(queue.times(), [300, 500, 650, 760, 860, 950, 1030, 1110, 1180]);
        assert!(queue.seen.iter().all(|(_, fate)| *fate == Fate::Marked));
    }

    #[test]
    fn short_waits_bursts_and_a_queue_of_one_are_left_alone() {
        let mut queue = Queue::new(LAW);
        queue.standing(10, true, 500);
        assert!(queue.seen.is_empty(), "below the target");
        // A burst that drains within the interval.
        let mut queue = Queue::new(LAW);
        (0..15).for_each(|_| queue.push(0, true));
        (0..15).for_each(|n| assert!(queue.pop((n * 10 + 30) * US)));
        assert!(!queue.pop(200 * US) && queue.seen.is_empty());
        // Each waits long, but none behind another.
        let mut queue = Queue::new(LAW);
        for n in 0..100 {
            queue.push(n * 1000 * US, true);
            queue.pop((n * 1000 + 900) * US);
        }
        assert!(queue.seen.is_empty());
    }

    #[test]
    fn what_cannot_be_marked_is_dropped_or_passes() {
        let mut queue = Queue::new(LAW);
        queue.standing(100, false, 60);
        assert!(!queue.seen.is_empty() && queue.seen.iter().all(|(_, fate)| *fate == Fate::Dropped));
        let mut queue = Queue::new(Codel { drop: false, ..LAW });
        queue.standing(100, false, 60);
        assert_eq!(queue.times(), [300, 500]);
        assert!(queue.seen.iter().all(|(_, fate)| *fate == Fate::Passed));
    }

    #[test]
    fn a_law_that_has_just_ended_begins_again_where_it_was() {
        let mut queue = Queue::new(LAW);
        queue.standing(100, true, 120);
        let count = queue.state.law.count();
        while queue.pop(1200 * US) {}
        assert!(!queue.state.law.is_dropping());
        let before = queue.seen.len();
        for n in 0..60 {
            queue.push((1200 + 10 * n) * US, true);
        }
        for n in 0..50 {
            queue.push((1800 + 10 * n) * US, true);
            queue.pop((1800 + 10 * n) * US);
        }
        let again = &queue.times()[before..];
        assert_eq!(again[0], 2000);
        assert!(count > 5 && again[1] - again[0] < 200 / 2, "{count} {again:?}");
    }

    proptest! {
        /// Whatever comes: every packet is sent or dropped once, and no pick comes before the first interval is over.
        #[test]
        fn packets_are_conserved(steps in prop::collection::vec((0u64..40, any::<bool>(), 0u64..3), 1..400), drop: bool) {
            let mut queue = Queue::new(Codel { drop, ..LAW });
            let (mut now, mut came, mut sent) = (0, 0, 0);
            for (pause, ect, pops) in steps {
                now += pause * US;
                queue.push(now, ect);
                came += 1;
                for _ in 0..pops {
                    now += US;
                    sent += u64::from(queue.pop(now));
                }
            }
            now += 10_000 * US;
            while !queue.waiting.is_empty() {
                now += US;
                sent += u64::from(queue.pop(now));
            }
            let dropped = queue.seen.iter().filter(|(_, fate)| *fate == Fate::Dropped).count() as u64;
            prop_assert_eq!(came, sent + dropped);
            prop_assert!(drop || dropped == 0);
            prop_assert!(queue.seen.iter().all(|(at, _)| *at >= 220 * US));
        }
    }
}
