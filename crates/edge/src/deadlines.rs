use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When each flow wants to be looked at again. Deadlines mostly move later, with every ACK: that touches nothing, and
/// the flow is asked again when the old time comes.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// (ns, flow)
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    /// Per flow, the time of its entry that counts; 0: none.
    armed: Vec<u64>,
}

impl Deadlines {
    /// Makes sure that the flow is looked at no later than `due`, in ns.
    pub(crate) fn arm(&mut self, id: u32, due: u64) {
        let index = id as usize;
        if self.armed.len() <= index {
            self.armed.resize(index + 1, 0);
        }
        let (due, armed) = (due.max(1), &mut self.armed[index]);
        if *armed == 0 || due < *armed {
            *armed = due;
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
            let armed = &mut self.armed[id as usize];
            if *armed == due {
                *armed = 0;
                return Some(id);
            }
        }
        None
    }

    /// When to call [`pop`](Deadlines::pop) next, in ns.
    pub(crate) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((due, _))| *due)
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
}
