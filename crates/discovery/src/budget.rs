//! How many probes may be sent: a token bucket.

use units::Time;

/// Probes that may leave at once after a pause.
const BURST: u64 = 64;

#[derive(Debug)]
pub(crate) struct Budget {
    /// Between two probes.
    gap: Time,
    /// When the bucket would be full, if nothing more was sent.
    full: Time,
}

impl Budget {
    pub(crate) fn new(per_second: u32) -> Budget {
        Budget { gap: Time::from_ns(1_000_000_000 / u64::from(per_second.max(1))), full: Time::ZERO }
    }

    /// When the next probe may leave.
    pub(crate) fn next(&self, now: Time) -> Time {
        now.max(self.full.saturating_sub(self.gap * (BURST - 1)))
    }

    pub(crate) fn has(&mut self, now: Time) -> bool {
        self.full = self.full.max(now);
        self.next(now) == now
    }

    pub(crate) fn take(&mut self) {
        self.full += self.gap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_the_rate() {
        let (mut budget, mut sent) = (Budget::new(1000), 0);
        for ms in 0..=100 {
            while budget.has(Time::from_ms(ms)) {
                budget.take();
                sent += 1;
            }
        }
        assert_eq!(sent, BURST + 100);
        assert_eq!(budget.next(Time::from_ms(100)), Time::from_ms(101));
    }
}
