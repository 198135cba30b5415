//! Deadlines of flows in a heap. Moving a deadline later costs nothing until the old one is reached.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The next deadline of each flow. Deadlines mostly move later, with every ACK: that touches nothing, and
/// the flow is asked again when the old time comes. Times are in the caller's unit.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// (time, flow)
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    /// Per flow, the time of its entry that counts.
    armed: Vec<Option<u64>>,
}

impl Deadlines {
    /// Makes sure that the flow is looked at no later than `due`.
    pub(crate) fn arm(&mut self, id: u32, due: u64) {
        let index = id as usize;
        if self.armed.len() <= index {
            self.armed.resize(index + 1, None);
        }
        let armed = &mut self.armed[index];
        if armed.is_none_or(|armed| due < armed) {
            *armed = Some(due);
            self.heap.push(Reverse((due, id)));
        }
    }

    /// A flow whose time has come; it is no longer armed.
    pub(crate) fn pop(&mut self, now: u64) -> Option<u32> {
        while let Some(&Reverse((due, id))) = self.heap.peek() {
            if due > now {
                return None;
            }
            self.heap.pop();
            if self.disarm(id, due) {
                return Some(id);
            }
        }
        None
    }

    /// When to call [`pop`](Deadlines::pop) next.
    pub(crate) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((due, _))| *due)
    }

    /// The earliest deadline, exactly: `due_of` tells a flow's own. A flow is asked only if its deadline may have moved
    /// since it was armed, so that all calls together ask no more often than flows are armed or moved.
    pub(crate) fn earliest(&mut self, due_of: impl Fn(u32) -> Option<u64>) -> Option<u64> {
        while let Some(&Reverse((due, id))) = self.heap.peek() {
            let own = due_of(id);
            if own == Some(due) {
                return own;
            }
            self.heap.pop();
            if let (true, Some(own)) = (self.disarm(id, due), own) {
                self.arm(id, own);
            }
        }
        None
    }

    /// False for an entry that an earlier one has made void.
    fn disarm(&mut self, id: u32, due: u64) -> bool {
        let armed = &mut self.armed[id as usize];
        let counts = *armed == Some(due);
        if counts {
            *armed = None;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_moved_later_is_asked_again_and_one_moved_earlier_counts() {
        let mut deadlines = Deadlines::default();
        deadlines.arm(3, 100);
        deadlines.arm(3, 500);
        assert_eq!((deadlines.next(), deadlines.pop(99), deadlines.pop(100)), (Some(100), None, Some(3)));
        deadlines.arm(3, 500);
        deadlines.arm(3, 200);
        assert_eq!(deadlines.pop(499), Some(3), "the earlier one");
        assert_eq!((deadlines.pop(1000), deadlines.next()), (None, None), "the later one is void");
    }

    #[test]
    fn the_earliest_follows_what_moved() {
        let mut deadlines = Deadlines::default();
        deadlines.arm(0, 0);
        deadlines.arm(1, 50);
        deadlines.arm(2, 70);
        let mut own = [Some(90), Some(50), None];
        assert_eq!(deadlines.earliest(|id| own[id as usize]), Some(50), "the first has moved to 90");
        own[1] = Some(95);
        assert_eq!(
            deadlines.earliest(|id| own[id as usize]),
            Some(90),
            "and the second to 95, the third wants nothing"
        );
        assert_eq!(
            (deadlines.pop(90), deadlines.pop(94), deadlines.pop(95), deadlines.next()),
            (Some(0), None, Some(1), None)
        );
    }
}
