//! What a receiver has counted of one sender: in all, in the measured part, and by interval.

/// Bytes so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) received: u64,
    /// `received` at the ends of the measured part.
    at_warmup: Option<u64>,
    at_duration: Option<u64>,
    pub(super) series: Vec<u64>,
    sampled: Option<u64>,
}

impl Tally {
    /// Of a sender that is first heard of now. Is the warm-up over, and the measured part?
    pub(super) fn new(passed_warmup: bool, passed_duration: bool) -> Tally {
        let (at_warmup, at_duration) = (passed_warmup.then_some(0), passed_duration.then_some(0));
        Tally { at_warmup, at_duration, ..Tally::default() }
    }

    pub(super) fn begin_measurement(&mut self) {
        self.at_warmup.get_or_insert(self.received);
    }

    pub(super) fn end_measurement(&mut self) {
        self.at_duration.get_or_insert(self.received);
    }

    /// Ends an interval; so many others have ended in the run.
    pub(super) fn sample(&mut self, samples: usize) {
        let bytes = self.received - self.sampled.unwrap_or(0);
        if samples > 0 {
            // What came before it was first heard of is nothing.
            self.series.resize(samples - 1, 0);
            self.series.push(bytes);
        }
        self.sampled = Some(self.received);
    }

    /// Of the bytes from `begins` to `ends`: how many have come, and how many in the measured part.
    pub(super) fn of(&self, begins: u64, ends: u64) -> (u64, u64) {
        let within = |bytes: u64| bytes.clamp(begins, ends) - begins;
        let until = within(self.at_duration.unwrap_or(self.received));
        // Before the warm-up's end nothing is measured.
        let from = within(self.at_warmup.unwrap_or(self.received));
        (within(self.received), until.saturating_sub(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measured_part() {
        let tally = |received, at_warmup, at_duration| Tally { received, at_warmup, at_duration, ..Tally::default() };
        assert_eq!(tally(300, None, None).of(100, 300), (200, 0), "over before the warm-up was");
        assert_eq!(tally(400, Some(150), None).of(100, 300), (200, 150), "half of it was there at the warm-up's end");
        assert_eq!(tally(400, Some(0), Some(250)).of(100, 300), (200, 150), "the rest came in the drain");
        assert_eq!(tally(50, Some(0), None).of(100, 300), (0, 0));
        assert_eq!(tally(1000, Some(400), Some(900)).of(100, u64::MAX), (900, 500));
    }

    #[test]
    fn intervals_before_the_first_byte_are_empty() {
        let mut tally = Tally::new(true, false);
        tally.received = 70;
        tally.sample(3);
        tally.received = 100;
        tally.sample(4);
        assert_eq!(tally.series, [0, 0, 70, 30]);
        tally.begin_measurement();
        tally.end_measurement();
        tally.received = 150;
        assert_eq!(tally.of(0, u64::MAX), (150, 100));
    }
}
