//! Keys of events, and a 4-ary heap of them.

use std::cmp::Ordering;

/// When an event fires and what breaks ties: time in picoseconds, then the order within it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    pub time_ps: u64,
    /// Node in the upper 24 bits; in the lower 40 the turn of a rank, or above all of those the sequence, see [`crate::Scheduler`].
    pub order: u64,
}

impl Key {
    /// Both parts as one number: comparing it takes no branch.
    #[inline]
    fn rank(self) -> u128 {
        u128::from(self.time_ps) << 64 | u128::from(self.order)
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Key) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Key {
    #[inline]
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
    #[inline]
    fn lt(&self, other: &Key) -> bool {
        self.rank() < other.rank()
    }
    #[inline]
    fn le(&self, other: &Key) -> bool {
        self.rank() <= other.rank()
    }
}

/// A 4-ary min-heap of keys with a small payload. Four children share a cache line's worth of keys, which halves
/// the depth, and so the cache misses, of a binary heap.
#[derive(Debug)]
pub struct Heap<T> {
    items: Vec<(Key, T)>,
}

impl<T: Copy> Default for Heap<T> {
    fn default() -> Self {
        Heap { items: Vec::new() }
    }
}

impl<T: Copy> Heap<T> {
    pub fn len(&self) -> usize {
        self.items.len()
    }
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    pub fn peek(&self) -> Option<Key> {
        self.items.first().map(|i| i.0)
    }

    pub fn push(&mut self, key: Key, item: T) {
        let mut hole = self.items.len();
        self.items.push((key, item));
        while hole > 0 {
            let parent = (hole - 1) / 4;
            if self.items[parent].0 <= key {
                break;
            }
            self.items[hole] = self.items[parent];
            hole = parent;
        }
        self.items[hole] = (key, item);
    }

    pub fn pop(&mut self) -> Option<(Key, T)> {
        let last = self.items.pop()?;
        let Some(&top) = self.items.first() else {
            return Some(last);
        };
        // Let the hole sink to a leaf along the smallest children, then lift the last item from there: the last item
        // nearly always belongs near the bottom, so comparing it on the way down would be wasted.
        let n = self.items.len();
        let mut hole = 0;
        loop {
            let first = 4 * hole + 1;
            if first >= n {
                break;
            }
            let mut least = first;
            if first + 4 <= n {
                let c = &self.items[first..first + 4];
                let a = usize::from(c[1].0 < c[0].0);
                let b = 2 + usize::from(c[3].0 < c[2].0);
                least += if c[b].0 < c[a].0 { b } else { a };
            } else {
                for child in first + 1..n {
                    if self.items[child].0 < self.items[least].0 {
                        least = child;
                    }
                }
            }
            self.items[hole] = self.items[least];
            hole = least;
        }
        while hole > 0 {
            let parent = (hole - 1) / 4;
            if self.items[parent].0 <= last.0 {
                break;
            }
            self.items[hole] = self.items[parent];
            hole = parent;
        }
        self.items[hole] = last;
        Some(top)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Purpose, Stream};
    use std::collections::BTreeMap;

    #[test]
    fn pops_in_total_order_like_a_sorted_map() {
        let mut rng = Stream::new(5, 0, Purpose::Arrivals);
        let (mut heap, mut model) = (Heap::default(), BTreeMap::new());
        let mut now = 0;
        for step in 0..50_000u64 {
            if rng.below(5) < 3 || model.is_empty() {
                let key = Key { time_ps: now + rng.below(50), order: rng.below(4) << 40 | step };
                heap.push(key, step);
                model.insert(key, step);
            } else {
                let popped = heap.pop().unwrap();
                assert_eq!(Some(popped), model.pop_first());
                now = popped.0.time_ps;
            }
            assert_eq!(heap.len(), model.len());
            assert_eq!(heap.peek(), model.first_key_value().map(|e| *e.0));
        }
        while let Some(popped) = heap.pop() {
            assert_eq!(Some(popped), model.pop_first());
        }
        assert!(model.is_empty() && heap.is_empty());
    }
}
