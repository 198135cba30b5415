//! The parts of a network that is cut, and how far threads can share what a window of them holds.

use crate::outcome::Windows;
use fabric::{Border, Cut, Part};
use sim::{Crew, Done};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use units::Time;

/// What runs elsewhere.
pub(crate) struct Elsewhere {
    pub(crate) crew: Arc<Crew<Part>>,
    pub(super) cut: Cut,
    pub(super) border: Border,
    /// When parts have something to do again, and when what was posted to them has an effect.
    pub(super) next: Time,
    pub(super) posted: Time,
    pub(crate) windows: Windows,
    pub(super) sharing: Sharing,
}

/// What a thread does with a part of switches in a window.
pub(crate) fn work(part: &mut Part, until_ps: u64) -> Done {
    part.work(Time::from_ps(until_ps))
}

/// Room for working out who does what in a window: events of its parts, and of each thread.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    parts: Vec<u64>,
    threads: BinaryHeap<Reverse<u64>>,
}

impl Sharing {
    /// Counts a window in which the hosts' part had so many events, and the others these.
    pub(super) fn add(&mut self, windows: &mut Windows, own: u64, others: impl Iterator<Item = u64>) {
        let Sharing { parts, threads } = self;
        parts.clear();
        parts.extend(others);
        windows.windows += 1;
        windows.hosts_part_events += own;
        windows.other_events += parts.iter().sum::<u64>();
        windows.busiest_other_events += parts.iter().max().copied().unwrap_or_default();
        parts.push(own);
        parts.sort_unstable_by_key(|&events| Reverse(events));
        windows.critical_events += parts[0];
        threads.clear();
        threads.extend((0..windows.threads.clamp(1, parts.len())).map(|_| Reverse(0)));
        let mut busiest = 0;
        for &events in parts.iter() {
            if let Some(mut least) = threads.peek_mut() {
                least.0 += events;
                busiest = busiest.max(least.0);
            }
        }
        windows.busiest_thread_events += busiest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_go_to_threads_longest_first() {
        let of = |threads, windows: &[(u64, &[u64])]| {
            let (mut all, mut sharing) = (Windows { threads, ..Windows::default() }, Sharing::default());
            windows.iter().for_each(|(own, others)| sharing.add(&mut all, *own, others.iter().copied()));
            (all.hosts_part_events + all.other_events, all.busiest_thread_events, all.critical_events)
        };
        let one: &[(u64, &[u64])] = &[(5, &[1, 4, 3])];
        assert_eq!([1, 2, 3, 4, 9].map(|threads| of(threads, one)), [13, 7, 5, 5, 5].map(|busiest| (13, busiest, 5)));
        // The busiest is another one in each window.
        assert_eq!(of(2, &[(5, &[1, 1]), (0, &[6, 0]), (0, &[])]), (13, 11, 11));
    }
}
