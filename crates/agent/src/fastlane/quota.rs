//! How much of what peers tell is looked at, of one guest.

use kernel::state::fastlane::FAST_INTERVAL_NS;
use std::collections::HashMap;

/// As much as of what this host drops itself.
#[derive(Debug)]
pub(super) struct Quota {
    /// In an interval.
    bytes: u64,
    /// By ifindex of the port: since when, ns, and bytes; nothing is ever listed in its order.
    of_guests: HashMap<u32, (u64, u64)>,
    /// When those whose interval had ended were forgotten last, ns.
    forgot: u64,
}

/// As `kernel/drops.h` reckons.
const LEAST_COST: u64 = 2048;
const PACKET_COST: u64 = 1024;

impl Quota {
    pub(super) fn new(bytes: u64) -> Quota {
        Quota { bytes, of_guests: HashMap::new(), forgot: 0 }
    }

    pub(super) fn admits(&mut self, port: u32, bytes: u32, packets: u32, now: u64) -> bool {
        let ended = |since: u64| now.saturating_sub(since) >= FAST_INTERVAL_NS;
        if ended(self.forgot) {
            self.of_guests.retain(|_, (since, _)| !ended(*since));
            self.forgot = now;
        }
        let (since, used) = self.of_guests.entry(port).or_insert((now, 0));
        if ended(*since) {
            (*since, *used) = (now, 0);
        }
        let cost = u64::from(bytes).max(u64::from(packets) * PACKET_COST).max(LEAST_COST);
        if *used > 0 && *used + cost > self.bytes {
            return false;
        }
        *used += cost;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_guests_drops_are_bounded_and_another_guests_are_its_own() {
        let mut quota = Quota::new(10_000);
        assert!(quota.admits(1, 65_535, 45, 0), "one segment goes in any case");
        assert!(!quota.admits(1, 1, 1, FAST_INTERVAL_NS - 1));
        assert!(quota.admits(2, 1, 1, 5) && quota.admits(2, 1, 1, 5), "small ones count as more");
        assert_eq!((0..10).filter(|_| quota.admits(2, 1, 1, 6)).count(), 2);
        assert!(!quota.admits(2, 1, 1, 7) && quota.admits(1, 1, 1, FAST_INTERVAL_NS));
    }

    #[test]
    fn guests_that_come_and_go_leave_nothing_behind() {
        let mut quota = Quota::new(10_000);
        for port in 1..1000 {
            assert!(quota.admits(port, 65_535, 45, u64::from(port) * FAST_INTERVAL_NS / 10));
            assert!(quota.of_guests.len() <= 20, "{}", quota.of_guests.len());
        }
        let now = 1000 * FAST_INTERVAL_NS / 10;
        assert!(!quota.admits(999, 1, 1, now) && quota.admits(1, 1, 1, now));
    }
}
