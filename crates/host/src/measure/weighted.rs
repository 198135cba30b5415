//! Time-weighted mean and maximum of a quantity that changes in steps.

use units::Time;

/// The time-weighted mean and the maximum of a quantity that changes in steps, such as a queue's length in bytes. Exact:
/// the area is an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeWeighted {
    since: Time,
    changed: Time,
    value: u64,
    area: u128,
    max: u64,
}

impl TimeWeighted {
    pub fn new(now: Time, value: u64) -> TimeWeighted {
        TimeWeighted { since: now, changed: now, value, area: 0, max: value }
    }

    /// The quantity becomes `value` at `now`; a time before the last change counts as the last change.
    pub fn set(&mut self, now: Time, value: u64) {
        self.area += u128::from(self.value) * u128::from(now.saturating_sub(self.changed).as_ps());
        self.changed = self.changed.max(now);
        self.value = value;
        self.max = self.max.max(value);
    }

    /// Mean from the start until `now`; the present value if no time has passed.
    pub fn mean(&self, now: Time) -> f64 {
        let span = now.max(self.changed).saturating_sub(self.since).as_ps();
        if span == 0 {
            return self.value as f64;
        }
        let area = self.area + u128::from(self.value) * u128::from(now.saturating_sub(self.changed).as_ps());
        area as f64 / span as f64
    }

    pub fn max(&self) -> u64 {
        self.max
    }

    /// Forgets the past, as when a warm-up ends.
    pub fn restart(&mut self, now: Time) {
        *self = TimeWeighted::new(now, self.value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_by_hand() {
        let at = Time::from_us;
        let mut queue = TimeWeighted::new(at(10), 0);
        queue.set(at(12), 1000);
        queue.set(at(13), 3000);
        queue.set(at(13), 500);
        // 2 us of 0, 1 us of 1,000, 5 us of 500.
        assert_eq!(queue.mean(at(18)), 3500.0 / 8.0);
        assert_eq!(queue.max(), 3000);
        queue.restart(at(18));
        assert_eq!((queue.mean(at(18)), queue.mean(at(20)), queue.max()), (500.0, 500.0, 500));
        queue.set(at(1), 7);
        assert_eq!(queue.mean(at(18)), 7.0);
    }
}
