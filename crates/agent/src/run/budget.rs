//! Sweeps and ticks together take less than a twentieth of a CPU's time.

use std::time::Duration;

/// What can be put off takes this part of a CPU's time at most.
pub(super) const SHARE: u32 = 25;
/// So many times as long as a step of a sweep, and the ticks since the one before it, took, no sweep goes on.
const SWEEP_REST: u32 = 20;

/// Ticks come first, for timeouts wait for them; a sweep has what they leave.
#[derive(Debug, Default)]
pub(super) struct Budget {
    /// CPU time of the ticks since the last step of the sweep under way.
    ticked: Duration,
}

impl Budget {
    /// A sweep begins. What ticks took while there was none is nothing that it owes.
    pub(super) fn begin_sweep(&mut self) {
        self.ticked = Duration::ZERO;
    }

    /// A step of a sweep took so long. The next comes no sooner than so long after its end.
    pub(super) fn swept(&mut self, took: Duration) -> Duration {
        SWEEP_REST * (took + std::mem::take(&mut self.ticked))
    }

    /// A tick took so long. The next comes no sooner than so long after it began.
    pub(super) fn ticked(&mut self, took: Duration) -> Duration {
        self.ticked += took;
        SHARE * took
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of 200 s that steps of a sweep and ticks take, if they take so many us each; a tick rests for 5 ms at least.
    fn parts(step: u64, tick: u64) -> (f64, f64) {
        const TIME: u64 = 200_000_000;
        let us = |rest: Duration| rest.as_micros() as u64;
        let (mut budget, mut now, mut next_step, mut next_tick) = (Budget::default(), 0, 0, 0);
        let (mut swept, mut ticked) = (0, 0);
        budget.begin_sweep();
        while now < TIME {
            if tick > 0 && next_tick <= next_step {
                let begun = next_tick.max(now);
                (now, ticked) = (begun + tick, ticked + tick);
                next_tick = begun + us(budget.ticked(Duration::from_micros(tick))).max(5000);
            } else {
                (now, swept) = (next_step.max(now) + step, swept + step);
                next_step = now + us(budget.swept(Duration::from_micros(step)));
            }
        }
        (swept as f64 / TIME as f64, ticked as f64 / TIME as f64)
    }

    #[test]
    fn both_together_take_less_than_a_twentieth() {
        for step in [200, 1500, 1900] {
            for tick in [0, 50, 150, 200, 1000, 5000] {
                let (sweep, ticks) = parts(step, tick);
                assert!(sweep + ticks < 0.05, "{step} {tick}: {sweep} {ticks}");
                assert!(sweep > 0.0075, "{step} {tick}: the sweep gets on: {sweep}");
                let wanted = tick as f64 / 5000.0;
                assert!(ticks >= wanted.min(0.038) * 0.95, "{step} {tick}: ticks do not wait for sweeps: {ticks}");
            }
        }
    }

    #[test]
    fn a_sweep_owes_nothing_of_the_time_before_it() {
        let mut budget = Budget::default();
        budget.ticked(Duration::from_secs(1));
        budget.begin_sweep();
        assert_eq!(budget.swept(Duration::from_millis(1)), Duration::from_millis(20));
    }
}
