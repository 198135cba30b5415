//! Restartable timers that cancel without a search.

use crate::{NodeId, Scheduler};
use units::Time;

/// Names a timer within its [`Timers`].
pub type TimerId = u32;

/// Restartable timers that cancel without a search.
///
/// A timer keeps its deadline beside the queue; at most one event per timer that counts is in the queue. Moving a
/// deadline later, as every ACK does to a retransmission timer, touches no queue: the event fires early, sees the
/// later deadline, and is scheduled once more. An event that was overtaken by an earlier deadline is known by its
/// generation and ignored; should a generation come round again after 65,536 restarts, the deadline still decides.
#[derive(Debug, Default)]
pub struct Timers {
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    deadline: Option<Time>,
    /// When the event that counts fires; `None` if none is queued.
    queued: Option<Time>,
    generation: u16,
}

impl Timers {
    pub fn add(&mut self) -> TimerId {
        self.slots.push(Slot::default());
        (self.slots.len() - 1) as TimerId
    }

    pub fn deadline(&self, id: TimerId) -> Option<Time> {
        self.slots[id as usize].deadline
    }

    /// Sets the deadline; `None` cancels. `event` builds the queue's event from the timer and its generation, which
    /// [`fire`](Self::fire) wants back. A deadline in the past fires at once.
    pub fn set<E: Copy>(
        &mut self,
        id: TimerId,
        deadline: Option<Time>,
        node: NodeId,
        scheduler: &mut Scheduler<E>,
        event: impl Fn(TimerId, u16) -> E,
    ) {
        let slot = &mut self.slots[id as usize];
        slot.deadline = deadline;
        let Some(deadline) = deadline else { return };
        let at = deadline.max(scheduler.now());
        if slot.queued.is_some_and(|q| q <= at) {
            return;
        }
        slot.generation = slot.generation.wrapping_add(1);
        slot.queued = Some(at);
        scheduler.schedule(at, node, event(id, slot.generation));
    }

    /// Whether the event just fired means that the timer expired; if so it is cleared.
    pub fn fire<E: Copy>(
        &mut self,
        id: TimerId,
        generation: u16,
        node: NodeId,
        scheduler: &mut Scheduler<E>,
        event: impl Fn(TimerId, u16) -> E,
    ) -> bool {
        let slot = &mut self.slots[id as usize];
        if slot.generation != generation {
            return false;
        }
        slot.queued = None;
        match slot.deadline {
            Some(deadline) if deadline <= scheduler.now() => {
                slot.deadline = None;
                true
            }
            Some(deadline) => {
                self.set(id, Some(deadline), node, scheduler, event);
                false
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the queue dry and returns when the timer expired.
    fn expiries(timers: &mut Timers, s: &mut Scheduler<(TimerId, u16)>) -> Vec<u64> {
        let mut at = Vec::new();
        while let Some(f) = s.pop_until(Time::MAX) {
            if timers.fire(f.event.0, f.event.1, 0, s, |i, g| (i, g)) {
                at.push(f.at.as_ns());
            }
        }
        at
    }

    fn script(deadlines: &[Option<u64>]) -> (Vec<u64>, u64) {
        let (mut timers, mut s) = (Timers::default(), Scheduler::new());
        let id = timers.add();
        for d in deadlines {
            timers.set(id, d.map(Time::from_ns), 0, &mut s, |i, g| (i, g));
        }
        let at = expiries(&mut timers, &mut s);
        (at, s.fired())
    }

    #[test]
    fn expires_once_at_the_last_deadline_set() {
        assert_eq!(script(&[Some(5)]), (vec![5], 1));
        assert_eq!(script(&[Some(5), Some(9)]), (vec![9], 2), "moved later: one early wake-up");
        assert_eq!(script(&[Some(9), Some(5)]), (vec![5], 2), "moved earlier: the old event is stale");
        assert_eq!(script(&[Some(5), None]).0, Vec::<u64>::new());
        assert_eq!(script(&[Some(5), None, Some(7)]).0, vec![7]);
        assert_eq!(script(&[Some(9), Some(5), Some(20)]).0, vec![20]);
    }

    #[test]
    fn a_thousand_restarts_cost_one_queue_entry() {
        let (mut timers, mut s) = (Timers::default(), Scheduler::new());
        let id = timers.add();
        for ns in 1..=1000 {
            timers.set(id, Some(Time::from_ns(ns)), 0, &mut s, |i, g| (i, g));
        }
        assert_eq!(s.pending(), 1);
        assert_eq!(expiries(&mut timers, &mut s), [1000]);
    }
}
