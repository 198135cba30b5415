//! The event queue: a wheel of 4 ns slots for near events, a heap for far ones.

use crate::queue::{Heap, Key};

/// The queue of pending events: a wheel of short slots for near events, a [`Heap`] for far ones.
///
/// Most events of a packet simulator lie a packet time and a propagation delay ahead. They go into slots of 4 ns, found
/// again by their bits in a map; a slot is sorted when its turn comes. What lies beyond the wheel's 4 us waits in the heap
/// and moves over when the wheel reaches it. The order is total: equal to that of the heap alone, for any input.
///
/// Chosen by `cargo bench -p sim` beside the standard binary heap, the 4-ary heap, a radix heap and a calendar queue.
#[derive(Debug)]
pub struct Wheel<T> {
    /// The slot whose turn it is, counted from time zero. Everything in `current` is in it or before it.
    turn: u64,
    /// Latest first, so that the next one is at the end.
    current: Vec<(Key, T)>,
    /// First entry of each slot's list, or [`NONE`].
    slots: Box<[u32; SLOTS]>,
    /// One bit per slot that has entries.
    occupied: [u64; SLOTS / 64],
    entries: Vec<Entry<T>>,
    free: u32,
    near: usize,
    far: Heap<T>,
    /// The slot of what is first in `far`; [`NEVER`]: it is empty.
    far_slot: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    key: Key,
    item: T,
    next: u32,
}

const SLOTS: usize = 1024;
/// A slot lasts 2^12 ps.
const SLOT_BITS: u32 = 12;
const NONE: u32 = u32::MAX;
/// No slot: one lies before it for any time.
const NEVER: u64 = u64::MAX;

fn slot_of(key: Key) -> u64 {
    key.time_ps >> SLOT_BITS
}

impl<T: Copy> Default for Wheel<T> {
    fn default() -> Self {
        Wheel {
            turn: 0,
            current: Vec::new(),
            slots: Box::new([NONE; SLOTS]),
            occupied: [0; SLOTS / 64],
            entries: Vec::new(),
            free: NONE,
            near: 0,
            far: Heap::default(),
            far_slot: NEVER,
        }
    }
}

impl<T: Copy> Wheel<T> {
    pub fn len(&self) -> usize {
        self.current.len() + self.near + self.far.len()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nearly all events go into a slot, which this is inlined for.
    #[inline]
    pub fn push(&mut self, key: Key, item: T) {
        let ahead = slot_of(key).wrapping_sub(self.turn);
        if ahead.wrapping_sub(1) < SLOTS as u64 - 1 {
            self.put(key, item);
        } else {
            self.push_aside(key, item);
        }
    }

    /// Into the slot whose turn it is, or beyond the wheel.
    #[inline(never)]
    fn push_aside(&mut self, key: Key, item: T) {
        let slot = slot_of(key);
        if slot <= self.turn {
            let at = self.current.iter().rposition(|e| e.0 > key).map_or(0, |i| i + 1);
            self.current.insert(at, (key, item));
        } else {
            self.far.push(key, item);
            self.far_slot = self.far_slot.min(slot);
        }
    }

    #[inline]
    fn put(&mut self, key: Key, item: T) {
        let slot = slot_of(key) as usize % SLOTS;
        let entry = Entry { key, item, next: self.slots[slot] };
        self.slots[slot] = match self.entries.get_mut(self.free as usize) {
            Some(unused) => {
                let at = self.free;
                self.free = unused.next;
                *unused = entry;
                at
            }
            None => self.grow(entry),
        };
        self.occupied[slot / 64] |= 1 << (slot % 64);
        self.near += 1;
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, entry: Entry<T>) -> u32 {
        self.entries.push(entry);
        (self.entries.len() - 1) as u32
    }

    /// The earliest key.
    pub fn peek(&self) -> Option<Key> {
        if let Some(last) = self.current.last() {
            return Some(last.0);
        }
        let far = self.far.peek();
        if self.near == 0 {
            return far;
        }
        let mut at = self.slots[self.next_occupied() as usize % SLOTS];
        let mut near = None;
        while let Some(entry) = self.entries.get(at as usize) {
            near = Some(near.map_or(entry.key, |key: Key| key.min(entry.key)));
            at = entry.next;
        }
        match (near, far) {
            (Some(near), Some(far)) => Some(near.min(far)),
            (near, far) => near.or(far),
        }
    }

    #[inline]
    pub fn pop(&mut self) -> Option<(Key, T)> {
        self.pop_until(u64::MAX)
    }

    /// The earliest event, if it is due at or before `until_ps`.
    #[inline]
    pub fn pop_until(&mut self, until_ps: u64) -> Option<(Key, T)> {
        if self.current.is_empty() && !self.turn_to_next(until_ps >> SLOT_BITS) {
            return None;
        }
        if self.current.last()?.0.time_ps > until_ps {
            return None;
        }
        self.current.pop()
    }

    /// Turns to the next slot that has events, and puts them in order; not beyond `limit`, because what is pushed to a slot whose turn
    /// has passed costs a search. False: there is none.
    #[inline(never)]
    fn turn_to_next(&mut self, limit: u64) -> bool {
        let near = if self.near > 0 { self.next_occupied() } else { NEVER };
        let next = near.min(self.far_slot);
        if next == NEVER || next > limit {
            return false;
        }
        self.turn = next;
        if self.far_slot - next < SLOTS as u64 {
            self.fetch(next);
        }
        let slot = next as usize % SLOTS;
        let mut at = std::mem::replace(&mut self.slots[slot], NONE);
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        while let Some(entry) = self.entries.get_mut(at as usize) {
            self.current.push((entry.key, entry.item));
            self.near -= 1;
            let following = std::mem::replace(&mut entry.next, self.free);
            self.free = at;
            at = following;
        }
        match *self.current {
            [] | [_] => {}
            // Two are what most slots with several have.
            [first, second] if first.0 < second.0 => self.current.swap(0, 1),
            [_, _] => {}
            _ => self.current.sort_unstable_by_key(|e| std::cmp::Reverse(e.0)),
        }
        true
    }

    /// What has come within reach of the slot whose turn it is moves to the wheel.
    #[inline(never)]
    fn fetch(&mut self, turn: u64) {
        while self.far_slot - turn < SLOTS as u64 {
            let Some((key, item)) = self.far.pop() else { break };
            self.far_slot = self.far.peek().map_or(NEVER, slot_of);
            self.put(key, item);
        }
    }

    /// The first slot after the current one that has entries; there is one.
    #[inline(always)]
    fn next_occupied(&self) -> u64 {
        let start = (self.turn + 1) as usize % SLOTS;
        let words = SLOTS / 64;
        let first = self.occupied[start / 64] >> (start % 64);
        if first != 0 {
            return self.turn + 1 + u64::from(first.trailing_zeros());
        }
        // The word of `start` comes up again at the end, for its lower bits.
        (1..=words)
            .find_map(|step| {
                let word = (start / 64 + step) % words;
                let bits = self.occupied[word];
                let slot = word * 64 + bits.trailing_zeros() as usize;
                (bits != 0).then(|| self.turn + 1 + ((slot + SLOTS - start) % SLOTS) as u64)
            })
            .unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Purpose, Stream};
    use std::collections::BTreeMap;

    /// Delays of every kind: none, within a slot, across the wheel, just beyond it, far.
    #[test]
    fn pops_in_total_order_like_a_sorted_map() {
        for seed in 0..20 {
            let mut rng = Stream::new(seed, 0, Purpose::Arrivals);
            let (mut wheel, mut model) = (Wheel::default(), BTreeMap::new());
            let mut now = 0;
            for step in 0..20_000u64 {
                if rng.below(5) < 3 || model.is_empty() {
                    let reach = [1, 3_000, 60_000, 4_000_000, 4_400_000, 1_000_000_000][rng.below(6) as usize];
                    let key = Key { time_ps: now + rng.below(reach), order: rng.below(4) << 40 | step };
                    wheel.push(key, step);
                    model.insert(key, step);
                } else {
                    if rng.below(2) == 0 {
                        // Looking must not change what follows, even if something earlier is pushed after it.
                        assert_eq!(wheel.peek(), model.first_key_value().map(|e| *e.0));
                    }
                    // A limit, which may lie before the first event, at it or behind it.
                    let first = model.first_key_value().map_or(0, |e| e.0.time_ps);
                    let until = [0, first.saturating_sub(1), first, first + 5_000, u64::MAX][rng.below(5) as usize];
                    let popped = wheel.pop_until(until);
                    assert_eq!(popped, if first <= until { model.pop_first() } else { None });
                    now = popped.map_or(now, |p| p.0.time_ps);
                }
                assert_eq!(wheel.len(), model.len());
            }
            while let Some(popped) = wheel.pop() {
                assert_eq!(Some(popped), model.pop_first());
            }
            assert!(model.is_empty() && wheel.is_empty());
        }
    }

    #[test]
    fn the_end_of_time_is_in_reach() {
        let mut wheel = Wheel::default();
        for (i, time_ps) in [u64::MAX, 0, u64::MAX - 1, 1 << 63].into_iter().enumerate() {
            wheel.push(Key { time_ps, order: i as u64 }, i);
        }
        let order: Vec<usize> = std::iter::from_fn(|| wheel.pop()).map(|e| e.1).collect();
        assert_eq!(order, [1, 3, 2, 0]);
    }
}
