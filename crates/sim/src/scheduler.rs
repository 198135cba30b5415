//! The virtual clock and its pending events, which fire by time, node, rank and order of scheduling.

use crate::queue::Key;
use crate::wheel::Wheel;
use units::Time;

/// The entity that an event belongs to: below 2^24.
pub type NodeId = u32;

/// An event that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fired<E> {
    pub at: Time,
    pub node: NodeId,
    pub event: E,
}

/// The virtual clock and its pending events.
///
/// Events at one instant fire by node. Of one node's, those with a rank come first, in an order that follows from the ranks and the
/// instant; the others follow in the order in which they were scheduled. So a node sees the same order whoever shares its scheduler,
/// as long as only the node itself schedules events without a rank for it: a model may be cut into parts with a scheduler each. `E`
/// should be small and `Copy`: it is moved about in the queue.
#[derive(Debug)]
pub struct Scheduler<E> {
    now: Time,
    sequence: u64,
    fired: u64,
    queue: Wheel<E>,
}

/// Of the order within an instant: the node is above them.
const WITHIN_NODE_BITS: u32 = 40;
/// Set in the order of events without a rank; the sequence is below it.
const UNRANKED: u64 = 1 << (WITHIN_NODE_BITS - 1);
const RANK_BITS: u32 = 24;

/// The order of a rank at an instant, which differs from instant to instant. So senders in step take turns at the last place of a
/// queue, as real clocks would have them. Were the least rank always first, it would lock out the others.
#[inline]
fn turn(time_ps: u64, rank: u32) -> u64 {
    let mixed =
        time_ps.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(rank).wrapping_mul(0xd1b5_4a32_d192_ed03));
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed >> (64 - (WITHIN_NODE_BITS - 1 - RANK_BITS)) << RANK_BITS | u64::from(rank)
}

impl<E: Copy> Default for Scheduler<E> {
    fn default() -> Self {
        Scheduler { now: Time::ZERO, sequence: 0, fired: 0, queue: Wheel::default() }
    }
}

impl<E: Copy> Scheduler<E> {
    pub fn new() -> Self {
        Self::default()
    }
    /// The time of the event fired last.
    pub fn now(&self) -> Time {
        self.now
    }
    /// Events fired so far.
    pub fn fired(&self) -> u64 {
        self.fired
    }
    pub fn pending(&self) -> usize {
        self.queue.len()
    }
    /// When the next event is due.
    pub fn next_at(&self) -> Option<Time> {
        self.queue.peek().map(|k| Time::from_ps(k.time_ps))
    }

    /// Schedules `event` on `node` at `at`.
    ///
    /// # Panics
    /// If `at` lies before [`now`](Self::now): the past is fixed.
    pub fn schedule(&mut self, at: Time, node: NodeId, event: E) {
        let within = UNRANKED | (self.sequence & (UNRANKED - 1));
        self.sequence += 1;
        self.push(at, node, within, event);
    }

    /// The same with a rank, below 2^24, which with the instant says whose turn it is among a node's events. Two events of equal time,
    /// node and rank must be the same.
    ///
    /// # Panics
    /// As [`schedule`](Self::schedule).
    #[inline]
    pub fn schedule_ranked(&mut self, at: Time, node: NodeId, rank: u32, event: E) {
        debug_assert!(rank < 1 << RANK_BITS);
        self.push(at, node, turn(at.as_ps(), rank), event);
    }

    #[inline]
    fn push(&mut self, at: Time, node: NodeId, within: u64, event: E) {
        assert!(at >= self.now, "event scheduled {} into the past", self.now.saturating_sub(at));
        debug_assert!(node < 1 << (64 - WITHIN_NODE_BITS));
        self.queue.push(Key { time_ps: at.as_ps(), order: u64::from(node) << WITHIN_NODE_BITS | within }, event);
    }

    /// Moves the clock forward without an event, for input that comes from outside the model; back, never.
    ///
    /// # Panics
    /// If an event is due before `to`: it would fire in the past.
    pub fn advance(&mut self, to: Time) {
        if to > self.now {
            assert!(self.next_at().is_none_or(|at| at >= to), "an event is due before {to}");
            self.now = to;
        }
    }

    /// Advances the clock to the next event that is due at or before `until` and returns it; leaves the clock where it
    /// is when there is none.
    #[inline]
    pub fn pop_until(&mut self, until: Time) -> Option<Fired<E>> {
        let (key, event) = self.queue.pop_until(until.as_ps())?;
        self.now = Time::from_ps(key.time_ps);
        self.fired += 1;
        Some(Fired { at: self.now, node: (key.order >> WITHIN_NODE_BITS) as NodeId, event })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_break_by_node_then_by_schedule_order() {
        let mut s = Scheduler::new();
        for (at, node, event) in [(5, 2, 'c'), (5, 1, 'a'), (1, 9, 'z'), (5, 2, 'd'), (5, 1, 'b')] {
            s.schedule(Time::from_ns(at), node, event);
        }
        let order: String = std::iter::from_fn(|| s.pop_until(Time::from_ns(5))).map(|f| f.event).collect();
        assert_eq!(order, "zabcd");
        assert_eq!(s.fired(), 5);
    }

    #[test]
    fn ranks_come_first_in_whatever_order_they_were_scheduled() {
        let order = |events: [(u32, char); 3]| {
            let mut s = Scheduler::new();
            let at = Time::from_ns(5);
            s.schedule(at, 1, 'x');
            s.schedule_ranked(at, 2, 0, 'z');
            s.schedule(at, 1, 'y');
            for (rank, event) in events {
                s.schedule_ranked(at, 1, rank, event);
            }
            std::iter::from_fn(|| s.pop_until(at)).map(|f| f.event).collect::<String>()
        };
        let one = order([(3, 'a'), (7, 'b'), (9, 'c')]);
        assert_eq!(one, order([(9, 'c'), (3, 'a'), (7, 'b')]));
        assert!(one.ends_with("xyz"), "{one}");
    }

    /// At equal distances, as of packets in step on links of one rate, and whatever the number of those in step.
    #[test]
    fn every_rank_is_first_as_often() {
        for step in [1, 1_000, 1_230_400, 7_270_400] {
            for ranks in [2, 5, 16] {
                let mut first = vec![0; ranks];
                for i in 0..1_000 * ranks as u64 {
                    let least = (0..ranks).min_by_key(|&rank| turn(1_000_000 + i * step, 40 + 3 * rank as u32));
                    first[least.unwrap()] += 1;
                }
                assert!(first.iter().all(|n| (850..1_150).contains(n)), "every {step} ps: {first:?}");
            }
        }
    }

    #[test]
    fn the_clock_stops_at_the_horizon() {
        let mut s = Scheduler::new();
        s.schedule(Time::from_ns(10), 0, ());
        assert_eq!(s.pop_until(Time::from_ns(9)), None);
        assert_eq!(s.now(), Time::ZERO);
        assert_eq!(s.next_at(), Some(Time::from_ns(10)));
        assert!(s.pop_until(Time::from_ns(10)).is_some());
    }

    #[test]
    fn input_from_outside_moves_the_clock_forward_only() {
        let mut s = Scheduler::new();
        s.schedule(Time::from_ns(10), 0, ());
        s.advance(Time::from_ns(8));
        s.advance(Time::from_ns(5));
        assert_eq!(s.now(), Time::from_ns(8));
        s.advance(Time::from_ns(10));
        assert!(s.pop_until(Time::from_ns(10)).is_some());
    }

    #[test]
    #[should_panic(expected = "an event is due")]
    fn the_clock_does_not_pass_an_event() {
        let mut s = Scheduler::new();
        s.schedule(Time::from_ns(10), 0, ());
        s.advance(Time::from_ns(11));
    }

    #[test]
    #[should_panic(expected = "into the past")]
    fn the_past_is_fixed() {
        let mut s = Scheduler::new();
        s.schedule(Time::from_ns(10), 0, ());
        s.pop_until(Time::MAX);
        s.schedule(Time::from_ns(9), 0, ());
    }
}
