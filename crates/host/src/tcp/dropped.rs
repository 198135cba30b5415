//! The table of what switches have dropped, for FastLane's sender (Zats et al. 2013, section 3.2).
//!
//! It says which range to send again, and how many retransmissions may be in the network at once.

/// How the number of simultaneous retransmissions falls when one is dropped again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slowdown {
    /// Half the window over the largest number of retries (the paper's Fig. 5).
    #[default]
    ByRetries,
    /// Half of what it was, for each (the paper's text).
    Halving,
}

/// Entries at most: a forger may not fill memory. More are left to the timeout.
const MOST: usize = 4096;

/// A range that was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    start: u64,
    end: u64,
    retries: u32,
    /// Sent again, and not heard of since.
    in_network: bool,
}

/// Dropped ranges that are not acknowledged, in order, apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    entries: Vec<Entry>,
    /// Window when the first entry came, bytes.
    pub(crate) cwnd: u64,
    /// Retransmissions that may be in the network at once, segments.
    pub(crate) max_sim: u64,
}

impl Table {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes note of a drop, which may be that of a retransmission.
    pub(crate) fn dropped(&mut self, start: u64, end: u64, cwnd: u64, mss: u64, slowdown: Slowdown) {
        if self.entries.is_empty() {
            self.cwnd = cwnd;
            self.max_sim = (cwnd / 2 / mss).max(1);
        }
        let full = self.entries.len() >= MOST;
        let at = self.entries.partition_point(|entry| entry.start < start);
        match self.entries.get_mut(at).filter(|entry| entry.start == start) {
            // Told twice of one drop, as a duplicated notification would.
            Some(entry) if !entry.in_network => return,
            Some(entry) => {
                entry.retries += 1;
                entry.in_network = false;
                entry.end = entry.end.max(end);
            }
            None if full => return,
            None => self.entries.insert(at, Entry { start, end, retries: 1, in_network: false }),
        }
        let retries = self.entries.iter().map(|entry| u64::from(entry.retries)).max().unwrap_or(1);
        self.max_sim = match slowdown {
            Slowdown::ByRetries => self.cwnd / 2 / mss / retries,
            Slowdown::Halving => (self.cwnd / 2 / mss).checked_shr(retries as u32 - 1).unwrap_or(0),
        }
        .max(1);
    }

    /// Forgets what is acknowledged. True: that was the last of it.
    pub(crate) fn acked(&mut self, una: u64) -> bool {
        let had = !self.entries.is_empty();
        self.entries.retain(|entry| entry.end > una);
        had && self.entries.is_empty()
    }

    /// Forgets what has arrived; says how much of that was sent again, in entries.
    pub(crate) fn delivered(&mut self, arrived: impl Fn(u64, u64) -> bool) -> u64 {
        let mut repaired = 0;
        self.entries.retain(|entry| {
            let gone = arrived(entry.start, entry.end);
            repaired += u64::from(gone && entry.in_network);
            !gone
        });
        repaired
    }

    /// The range to send next, if few enough are in the network.
    pub(crate) fn next_within(&self, una: u64) -> Option<(u64, u64)> {
        let in_network = self.entries.iter().filter(|entry| entry.in_network).count() as u64;
        let entry = self.entries.iter().find(|entry| !entry.in_network).filter(|_| in_network < self.max_sim)?;
        Some((entry.start.max(una), entry.end))
    }

    /// The range to send next: the lowest that waits, if it is the first outstanding byte or few enough are in the network.
    pub(crate) fn next(&self, una: u64) -> Option<(u64, u64)> {
        let in_network = self.entries.iter().filter(|entry| entry.in_network).count() as u64;
        let entry = self.entries.iter().find(|entry| !entry.in_network)?;
        let due = entry.start <= una || in_network < self.max_sim;
        due.then_some((entry.start.max(una), entry.end))
    }

    pub(crate) fn sent(&mut self, end: u64) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.end == end) {
            entry.in_network = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    fn table(cwnd: u64) -> Table {
        let mut table = Table::default();
        table.dropped(5000, 6000, cwnd * MSS, MSS, Slowdown::ByRetries);
        table
    }

    #[test]
    fn retries_divide_half_the_window_and_halving_halves_it() {
        for (slowdown, expected) in [(Slowdown::ByRetries, [10, 5, 3, 2]), (Slowdown::Halving, [10, 5, 2, 1])] {
            let mut table = Table::default();
            let seen = expected.map(|_| {
                table.dropped(0, 1000, 20 * MSS, MSS, slowdown);
                table.sent(1000);
                table.max_sim
            });
            assert_eq!(seen, expected, "{slowdown:?}");
        }
        let mut table = table(20);
        for _ in 0..29 {
            table.sent(6000);
            table.dropped(5000, 6000, 20 * MSS, MSS, Slowdown::ByRetries);
        }
        assert_eq!((table.entries[0].retries, table.max_sim), (30, 1));
    }

    #[test]
    fn the_lowest_goes_first_and_the_limit_holds_for_all_but_the_first_outstanding() {
        let mut table = table(2);
        for start in [9000, 7000, 3000] {
            table.dropped(start, start + 1000, 2 * MSS, MSS, Slowdown::ByRetries);
        }
        assert_eq!(table.max_sim, 1);
        assert_eq!(table.next(1000), Some((3000, 4000)));
        table.sent(4000);
        assert_eq!(table.next(1000), None, "one is in the network");
        assert_eq!(table.next(5000), Some((5000, 6000)), "the first outstanding byte waits for nothing");
        table.sent(6000);
        assert_eq!(table.next(5500), None);
        assert!(!table.acked(6000));
        assert_eq!(table.next(6000), Some((7000, 8000)));
        assert!(!table.acked(9999) && table.acked(10_000));
        assert!(!table.acked(10_000), "it ends once");
    }

    #[test]
    fn without_the_rule_what_has_arrived_beyond_the_first_outstanding_byte_holds_it_back_until_a_timeout() {
        let mut table = table(2);
        table.sent(6000);
        table.dropped(3000, 4000, 2 * MSS, MSS, Slowdown::ByRetries);
        // The retransmission has arrived, but ACKs stay at the hole before it.
        assert!(!table.acked(3000));
        assert_eq!(table.next_within(3000), None, "all that may be in the network is");
        assert_eq!(table.next(3000), Some((3000, 4000)));
    }

    #[test]
    fn a_repeated_notification_changes_nothing_and_a_forger_fills_no_memory() {
        let mut table = table(20);
        table.dropped(5000, 6000, 20 * MSS, MSS, Slowdown::ByRetries);
        assert_eq!(table.entries[0].retries, 1);
        for start in 0..10_000 {
            table.dropped(10_000 + start, 10_001 + start, 20 * MSS, MSS, Slowdown::ByRetries);
        }
        assert_eq!(table.entries.len(), MOST);
    }
}
