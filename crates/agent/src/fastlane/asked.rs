//! Reports that wait for a duplicate ACK, without which a guest cannot be told: bounded.

use super::said::Reported;
use kernel::state::fastlane::FastKey;
use std::collections::{BTreeMap, BTreeSet};

/// That wait at once.
const MOST: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Asked {
    /// By due time, ns, and the order in which they came.
    reports: BTreeMap<(u64, u64), Reported>,
    /// Connection and sequence number of each.
    packets: BTreeSet<(FastKey, u32)>,
    next: u64,
}

impl Asked {
    /// False: there is no room for it, or the same packet waits already.
    pub(super) fn put(&mut self, due: u64, report: Reported) -> bool {
        if self.reports.len() >= MOST || !self.packets.insert(packet(&report)) {
            return false;
        }
        self.reports.insert((due, self.next), report);
        self.next += 1;
        true
    }

    /// One that is due at `now`, ns.
    pub(super) fn take(&mut self, now: u64) -> Option<Reported> {
        let entry = self.reports.first_entry().filter(|entry| entry.key().0 <= now)?;
        let report = entry.remove();
        self.packets.remove(&packet(&report));
        Some(report)
    }

    /// When the next one is due, ns.
    pub(super) fn due(&self) -> Option<u64> {
        self.reports.keys().next().map(|(due, _)| *due)
    }
}

fn packet(report: &Reported) -> (FastKey, u32) {
    (report.call.key, report.call.seq)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::state::fastlane::FastCall;

    #[test]
    fn they_are_due_in_order_and_no_more_than_there_is_room_for() {
        let mut asked = Asked::default();
        let report = |seq| Reported { call: FastCall { seq, ..FastCall::default() }, guest: [0; 6] };
        assert!(asked.put(20, report(1)) && asked.put(10, report(2)) && asked.put(20, report(3)));
        assert_eq!((asked.due(), asked.take(9).is_none()), (Some(10), true));
        let order: Vec<u32> = std::iter::from_fn(|| asked.take(20)).map(|report| report.call.seq).collect();
        assert_eq!(order, [2, 1, 3]);
        assert!(asked.put(5, report(1)) && !asked.put(6, report(1)), "one of each packet");
        let taken = (0..5000).filter(|n| asked.put(*n, report(10 + *n as u32))).count();
        assert_eq!((taken, asked.packets.len()), (MOST - 1, MOST));
    }
}
