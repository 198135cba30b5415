//! [`super::Pattern::FanOut`].

use super::arrivals::{draw_gap, Clocks};
use super::shape::Shape;
use super::{FlowSpec, Problem};
use sim::{Purpose, Stream};
use units::{Bytes, Time};

/// Answers of many hosts at once to one, at random times.
#[derive(Debug)]
pub(super) struct FanOut {
    shape: Shape,
    size: Bytes,
    totals: Vec<Bytes>,
    gap_ps: f64,
    hosts: u32,
    /// Per receiver: the streams of gaps, of totals and of senders.
    draws: Vec<[Stream; 3]>,
    clocks: Clocks,
    burst: Burst,
}

/// What is left of the burst that began last.
#[derive(Debug, Default)]
struct Burst {
    at: Time,
    receiver: u32,
    flows: u64,
    /// In the order in which they send, again and again until all flows have one.
    senders: Vec<u32>,
}

impl FanOut {
    /// Checks sizes; the mean bytes of a burst.
    pub(super) fn mean_bytes(size: Bytes, totals: &[Bytes]) -> Result<f64, Problem> {
        if size == Bytes::ZERO {
            return Err(Problem::Zero("the flow size"));
        }
        if totals.is_empty() {
            return Err(Problem::Zero("the number of totals"));
        }
        match totals.iter().find(|total| total.get() < size.get() || total.get() % size.get() != 0) {
            Some(&total) => Err(Problem::NotWhole { total, size }),
            None => Ok(totals.iter().map(|total| total.get() as f64).sum::<f64>() / totals.len() as f64),
        }
    }

    pub(super) fn new(
        shape: Shape,
        start: Time,
        size: Bytes,
        totals: &[Bytes],
        gap_ps: f64,
        hosts: u32,
        seed: u64,
    ) -> FanOut {
        let mut clocks = Clocks::until(shape.end, hosts as usize);
        let mut draws = Vec::with_capacity(hosts as usize);
        for receiver in 0..hosts {
            let mut streams =
                [Purpose::Arrivals, Purpose::FlowSize, Purpose::Pairing].map(|of| shape.stream(seed, receiver, of));
            clocks.set(receiver, start.saturating_add(draw_gap(&mut streams[0], gap_ps)));
            draws.push(streams);
        }
        let burst = Burst::default();
        FanOut { shape, size, totals: totals.to_vec(), gap_ps, hosts, draws, clocks, burst }
    }

    pub(super) fn peek(&self) -> Option<Time> {
        if self.burst.flows > 0 {
            return Some(self.burst.at);
        }
        self.clocks.peek()
    }

    pub(super) fn next(&mut self) -> Option<FlowSpec> {
        if self.burst.flows == 0 {
            let (at, receiver) = self.clocks.pop()?;
            let [gaps, totals, order] = &mut self.draws[receiver as usize];
            self.clocks.set(receiver, at.saturating_add(draw_gap(gaps, self.gap_ps)));
            let total = self.totals[totals.below(self.totals.len() as u64) as usize];
            let mut senders = std::mem::take(&mut self.burst.senders);
            senders.clear();
            senders.extend((0..self.hosts).filter(|&host| host != receiver));
            order.shuffle(&mut senders);
            self.burst = Burst { at, receiver, flows: total.get() / self.size.get(), senders };
        }
        let Burst { at, receiver, ref mut flows, ref senders } = self.burst;
        *flows -= 1;
        let src = senders[(*flows % senders.len() as u64) as usize];
        Some(self.shape.flow(at, (src, receiver), Some(self.size), receiver))
    }
}
