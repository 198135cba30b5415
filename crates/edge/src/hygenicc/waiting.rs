//! Segments that wait for their turn: first in, first out for each guest.

use super::{Config, Hold};
use crate::Slot;
use std::collections::VecDeque;
use units::Time;

#[derive(Debug, Default)]
struct Queue {
    segments: VecDeque<(u64, Slot)>,
    /// Bytes on the wire of all of them.
    bytes: u64,
    /// When the first may leave, if the rate stays.
    at: Time,
}

#[derive(Debug)]
pub(super) struct Waiting {
    by_guest: Vec<Queue>,
    /// Guests whose segments wait.
    busy: usize,
    most: u64,
}

impl Waiting {
    pub(super) fn new(config: &Config) -> Waiting {
        let most = match config.hold {
            Hold::Drop => 0,
            Hold::Delay(most) => most.get(),
        };
        Waiting { by_guest: config.guests.iter().map(|_| Queue::default()).collect(), busy: 0, most }
    }

    /// Bytes of the guest's first segment.
    pub(super) fn first(&self, guest: u32) -> Option<u64> {
        self.by_guest.get(guest as usize)?.segments.front().map(|(bytes, _)| *bytes)
    }

    pub(super) fn has_room(&self, guest: u32, bytes: u64) -> bool {
        self.by_guest.get(guest as usize).is_some_and(|queue| queue.bytes.saturating_add(bytes) <= self.most)
    }

    pub(super) fn push(&mut self, guest: u32, bytes: u64, until: Time, slot: Slot) {
        let Some(queue) = self.by_guest.get_mut(guest as usize) else { return };
        if queue.segments.is_empty() {
            queue.at = until;
            self.busy += 1;
        }
        queue.bytes += bytes;
        queue.segments.push_back((bytes, slot));
    }

    pub(super) fn pop(&mut self, guest: u32) -> Option<Slot> {
        let queue = self.by_guest.get_mut(guest as usize)?;
        let (bytes, slot) = queue.segments.pop_front()?;
        queue.bytes -= bytes;
        self.busy -= usize::from(queue.segments.is_empty());
        Some(slot)
    }

    /// The first guest behind that one, if any, whose segments wait, and the bytes of the first.
    pub(super) fn after(&self, guest: Option<u32>) -> Option<(u32, u64)> {
        let first = guest.map_or(0, |guest| guest + 1);
        (first..self.by_guest.len() as u32).filter(|_| self.busy > 0).find_map(|n| Some((n, self.first(n)?)))
    }

    /// The guest's first segment cannot leave before.
    pub(super) fn set(&mut self, guest: u32, at: Time) {
        if let Some(queue) = self.by_guest.get_mut(guest as usize) {
            queue.at = at;
        }
    }

    pub(super) fn next_at(&self) -> Option<Time> {
        let busy = self.by_guest.iter().filter(|queue| self.busy > 0 && !queue.segments.is_empty());
        busy.map(|queue| queue.at).filter(|&at| at < Time::MAX).min()
    }
}
