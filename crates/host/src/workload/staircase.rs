//! The pattern staircase: endless flows join one by one and leave in the same way.

use super::shape::Shape;
use super::{FlowSpec, Problem};
use units::Time;

/// [`super::Pattern::Staircase`]: when the flow of each pair starts and ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Staircase {
    start: Time,
    every: Time,
    flows: u32,
}

impl Staircase {
    pub(super) fn new(start: Time, every: Time, flows: usize) -> Result<Staircase, Problem> {
        if every == Time::ZERO {
            return Err(Problem::Zero("the period"));
        }
        Ok(Staircase { start, every, flows: flows as u32 })
    }

    /// When the `n`-th step begins; step 0 is the first flow alone.
    fn step(&self, n: u64) -> Time {
        let at = u128::from(self.every.as_ps()) * u128::from(n) + u128::from(self.start.as_ps());
        Time::from_ps(at.min(u128::from(u64::MAX)) as u64)
    }

    /// The last to join is the first to leave, when all have run together for one period.
    pub(super) fn end(&self, flow: u32) -> Time {
        self.step(2 * u64::from(self.flows) - 1 - u64::from(flow))
    }

    /// When steps begin, and when the last one ends, as far as that is not after `end`.
    pub(super) fn steps(&self, end: Time) -> Vec<Time> {
        (0..2 * u64::from(self.flows)).map(|n| self.step(n)).take_while(|&at| at <= end).collect()
    }

    pub(super) fn flows(&self, shape: &Shape, pairs: Vec<(u32, u32)>) -> Vec<FlowSpec> {
        let flow = |(tag, pair): (u32, (u32, u32))| shape.flow(self.step(u64::from(tag)), pair, None, tag);
        (0..).zip(pairs).map(flow).collect()
    }
}
