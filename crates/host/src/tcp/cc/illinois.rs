//! TCP-Illinois (Liu, Basar and Srikant 2008): loss decides when the window shrinks; queueing delay decides by how much it
//! grows and shrinks. With short queues the window grows by up to ten segments a round trip and shrinks by an eighth on a
//! loss. With full queues it grows by a third of a segment and shrinks by half.
//!
//! Parameters as in Linux (`tcp_illinois`), which are the paper's (section 4), but for the threshold of 15 segments.

use super::{AckEvent, Congestion, Law, Window};
use units::Time;

/// Growth in segments a round trip (the paper's alpha).
const GROWTH_MAX: f64 = 10.0;
const GROWTH_MIN: f64 = 0.3;
/// Share of the window that a reduction takes (the paper's beta).
const CUT_MIN: f64 = 0.125;
const CUT_MAX: f64 = 0.5;
/// Windows below this many segments are Reno's.
const MIN_WINDOW: u64 = 15;
/// Rounds of short queues before growth returns to its maximum: delay noise must not switch it.
const CALM_ROUNDS: u8 = 5;

#[derive(Clone, Debug)]
pub(crate) struct Illinois {
    base_rtt: Time,
    max_rtt: Time,
    /// Samples of this round, in picoseconds.
    sum: u64,
    samples: u32,
    /// The round ends when more than this is acknowledged.
    round_end: u64,
    growth: f64,
    cut: f64,
    /// Delay has been above the threshold since growth was last at its maximum; calm rounds since.
    above: bool,
    calm: u8,
}

impl Illinois {
    pub(crate) fn new(start: u64) -> Illinois {
        Illinois {
            base_rtt: Time::MAX,
            max_rtt: Time::ZERO,
            sum: 0,
            samples: 0,
            round_end: start,
            growth: GROWTH_MAX,
            cut: CUT_MAX,
            above: false,
            calm: 0,
        }
    }

    /// Growth where the mean queueing delay is `delay` and the largest ever `most`, in any one unit.
    fn growth_at(&mut self, delay: f64, most: f64) -> f64 {
        let low = most / 100.0;
        if delay > low {
            self.above = true;
            self.calm = 0;
            let (over, span) = (delay - low, most - low);
            return (span * GROWTH_MAX / (span + over * (GROWTH_MAX - GROWTH_MIN) / GROWTH_MIN)).max(GROWTH_MIN);
        }
        if self.above {
            self.calm += 1;
            if self.calm < CALM_ROUNDS {
                return self.growth;
            }
            self.above = false;
            self.calm = 0;
        }
        GROWTH_MAX
    }

    fn end_round(&mut self, window: &Window) {
        if window.cwnd < MIN_WINDOW * window.mss {
            self.growth = 1.0;
            self.cut = CUT_MAX;
        } else if self.samples > 0 {
            let mean = self.sum / u64::from(self.samples);
            let base = self.base_rtt.as_ps();
            let delay = mean.saturating_sub(base) as f64;
            let most = self.max_rtt.as_ps().saturating_sub(base) as f64;
            self.growth = self.growth_at(delay, most);
            self.cut = cut_at(delay, most);
        }
        self.sum = 0;
        self.samples = 0;
    }
}

/// A line from [`CUT_MIN`] at a tenth of the largest delay to [`CUT_MAX`] at eight tenths.
fn cut_at(delay: f64, most: f64) -> f64 {
    let (low, high) = (most / 10.0, most * 0.8);
    if delay <= low {
        CUT_MIN
    } else if delay >= high {
        CUT_MAX
    } else {
        CUT_MIN + (CUT_MAX - CUT_MIN) * (delay - low) / (high - low)
    }
}

impl Law for Illinois {
    fn on_delivered(&mut self, ack: &AckEvent) {
        if let Some(rtt) = ack.rtt {
            self.base_rtt = self.base_rtt.min(rtt);
            self.max_rtt = self.max_rtt.max(rtt);
            self.sum = self.sum.saturating_add(rtt.as_ps());
            self.samples += 1;
        }
    }

    fn grow(&mut self, ack: &AckEvent, window: &mut Window) {
        if ack.una > self.round_end {
            self.end_round(window);
            self.round_end = ack.nxt;
        }
        let rest = if window.in_slow_start() { window.slow_start(ack.delivered) } else { ack.delivered };
        if rest > 0 {
            window.increase(rest, self.growth);
        }
    }

    fn reduce(&mut self, why: Congestion, window: &Window) -> u64 {
        let kept = (window.cwnd as f64 * (1.0 - self.cut)) as u64;
        if why == Congestion::Timeout {
            self.growth = 1.0;
            self.cut = CUT_MAX;
            self.above = false;
            self.calm = 0;
            self.sum = 0;
            self.samples = 0;
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::test_ack;
    use proptest::prelude::*;

    const MSS: u64 = 1000;

    #[test]
    fn growth_and_cut_by_hand() {
        let mut law = Illinois::new(0);
        // Largest delay 1000: thresholds at 10 for growth, 100 and 800 for the cut.
        // growth(505) = 990 * 10 / (990 + 495 * 9.7 / 0.3) = 9900 / 16995 = 0.5825.
        for (delay, growth, cut) in
            [(0.0, 10.0, 0.125), (10.0, 10.0, 0.125), (505.0, 0.5825, 0.342), (1000.0, 0.3, 0.5)]
        {
            law.above = false;
            assert!((law.growth_at(delay, 1000.0) - growth).abs() < 1e-3, "growth at {delay}");
            assert!((cut_at(delay, 1000.0) - cut).abs() < 1e-3, "cut at {delay}: {}", cut_at(delay, 1000.0));
        }
        assert_eq!((cut_at(450.0, 1000.0), cut_at(800.0, 1000.0)), (0.3125, 0.5));
    }

    #[test]
    fn growth_returns_only_after_five_calm_rounds() {
        let mut law = Illinois::new(0);
        law.growth = law.growth_at(1000.0, 1000.0);
        for _ in 0..4 {
            law.growth = law.growth_at(0.0, 1000.0);
            assert_eq!(law.growth, GROWTH_MIN);
        }
        assert_eq!(law.growth_at(0.0, 1000.0), GROWTH_MAX);
    }

    /// A whole window acknowledged by one ACK that ends a round.
    fn round(law: &mut Illinois, window: &mut Window, rtt_us: u64) {
        let una = law.round_end + 1;
        let ack = AckEvent { rtt: Some(Time::from_us(rtt_us)), ..test_ack(Time::ZERO, window.cwnd, una, una, false) };
        law.on_delivered(&ack);
        law.grow(&ack, window);
    }

    #[test]
    fn short_queues_grow_fast_and_small_windows_like_reno() {
        let mut law = Illinois::new(0);
        let mut window = Window::new(MSS, 100);
        window.ssthresh = window.cwnd;
        law.max_rtt = Time::from_us(1100);
        round(&mut law, &mut window, 100);
        // Ten times 100 segments pay for 100 + 101 + ... + 108.
        assert_eq!(window.cwnd, 109 * MSS);
        assert_eq!(law.reduce(Congestion::Loss, &window), 95_375, "an eighth");
        (window.cwnd, window.ssthresh) = (14 * MSS, 14 * MSS);
        window.forget_credit();
        round(&mut law, &mut window, 100);
        assert_eq!(window.cwnd, 15 * MSS);
        assert_eq!(law.reduce(Congestion::Loss, &window), 7500, "half");
    }

    #[test]
    fn a_timeout_forgets_what_delay_has_taught() {
        let mut law = Illinois::new(0);
        let window = Window::new(MSS, 100);
        law.cut = CUT_MIN;
        assert_eq!(law.reduce(Congestion::Timeout, &window), 87_500);
        assert_eq!((law.growth, law.cut), (1.0, CUT_MAX));
    }

    proptest! {
        #[test]
        fn growth_and_cut_stay_in_bounds(delays in prop::collection::vec((0.0..1e12f64, 0.0..1e12f64), 1..50)) {
            let mut law = Illinois::new(0);
            for (a, b) in delays {
                let (delay, most) = (a.min(b), a.max(b));
                law.growth = law.growth_at(delay, most);
                prop_assert!((GROWTH_MIN..=GROWTH_MAX).contains(&law.growth));
                prop_assert!((CUT_MIN..=CUT_MAX).contains(&cut_at(delay, most)));
            }
        }
    }
}
