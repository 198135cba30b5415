//! Open loops: flows that start by the clock, whatever the state of earlier flows.

use super::pairs::Ends;
use super::shape::Shape;
use super::{Cdf, FlowSpec, HostMap, Pairs, Problem};
use sim::{Purpose, Stream};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::{BitRate, Bytes, Time};

/// The next start of each sender; senders that start together go in order of number.
#[derive(Debug)]
pub(super) struct Clocks {
    due: BinaryHeap<Reverse<(Time, u32)>>,
    end: Time,
}

impl Clocks {
    pub(super) fn until(end: Time, senders: usize) -> Clocks {
        Clocks { due: BinaryHeap::with_capacity(senders), end }
    }
    pub(super) fn set(&mut self, sender: u32, at: Time) {
        if at < self.end {
            self.due.push(Reverse((at, sender)));
        }
    }
    pub(super) fn peek(&self) -> Option<Time> {
        self.due.peek().map(|&Reverse((at, _))| at)
    }
    pub(super) fn pop(&mut self) -> Option<(Time, u32)> {
        self.due.pop().map(|Reverse(next)| next)
    }
}

/// Where the flows of one sender go.
#[derive(Debug)]
struct Sender {
    src: u32,
    /// Empty if the destination is drawn from all hosts that `Pairs` admits.
    dsts: Vec<u32>,
    pairing: Stream,
}

impl Sender {
    fn destination(&mut self, pairs: &Pairs, hosts: &HostMap) -> u32 {
        match self.dsts[..] {
            [] => pairs.draw(hosts, self.src, &mut self.pairing),
            [only] => only,
            _ => self.dsts[self.pairing.below(self.dsts.len() as u64) as usize],
        }
    }
}

/// Senders in order of host: one per pair, or one per sending host with all its destinations.
fn senders(shape: &Shape, ends: Ends<'_>, per_host: bool) -> Vec<Sender> {
    let Ends { fixed, hosts, seed, .. } = ends;
    let mut list: Vec<(u32, Vec<u32>)> = match fixed {
        None => (0..hosts.hosts()).map(|src| (src, Vec::new())).collect(),
        Some(pairs) => pairs.into_iter().map(|(src, dst)| (src, vec![dst])).collect(),
    };
    list.sort_by_key(|&(src, _)| src);
    if per_host {
        list.dedup_by(|later, first| {
            let same = later.0 == first.0;
            if same {
                first.1.append(&mut later.1);
            }
            same
        });
    }
    let with_stream = |(i, (src, dsts))| Sender { src, dsts, pairing: shape.stream(seed, i as u32, Purpose::Pairing) };
    list.into_iter().enumerate().map(with_stream).collect()
}

/// [`super::Pattern::Mice`].
#[derive(Debug)]
pub(super) struct Mice {
    shape: Shape,
    size: Bytes,
    every: Time,
    senders: Vec<Sender>,
    clocks: Clocks,
    pairs: Pairs,
    hosts: HostMap,
}

impl Mice {
    pub(super) fn new(shape: Shape, start: Time, size: Bytes, every: Time, ends: Ends<'_>) -> Result<Mice, Problem> {
        if every == Time::ZERO {
            return Err(Problem::Zero("the period"));
        }
        let Ends { pairs, hosts, seed, .. } = ends;
        let senders = senders(&shape, ends, false);
        let mut clocks = Clocks::until(shape.end, senders.len());
        for i in 0..senders.len() as u32 {
            let phase = shape.stream(seed, i, Purpose::Arrivals).below(every.as_ps());
            clocks.set(i, start.saturating_add(Time::from_ps(phase)));
        }
        Ok(Mice { shape, size, every, senders, clocks, pairs: pairs.clone(), hosts: hosts.clone() })
    }

    pub(super) fn peek(&self) -> Option<Time> {
        self.clocks.peek()
    }

    pub(super) fn next(&mut self) -> Option<FlowSpec> {
        let (at, i) = self.clocks.pop()?;
        self.clocks.set(i, at.saturating_add(self.every));
        let sender = &mut self.senders[i as usize];
        let dst = sender.destination(&self.pairs, &self.hosts);
        Some(self.shape.flow(at, (sender.src, dst), Some(self.size), i))
    }
}

/// [`super::Pattern::Poisson`].
#[derive(Debug)]
pub(super) struct Poisson {
    shape: Shape,
    cdf: Cdf,
    gap_ps: f64,
    senders: Vec<Sender>,
    /// Per sender: the streams of gaps and of sizes.
    draws: Vec<(Stream, Stream)>,
    clocks: Clocks,
    pairs: Pairs,
    hosts: HostMap,
}

impl Poisson {
    /// Mean time between the flows of one host: 8 x mean size / (load x capacity).
    pub(super) fn mean_gap_ps(mean_bytes: f64, load: f64, capacity: BitRate) -> Result<f64, Problem> {
        if !(load.is_finite() && load > 0.0) {
            return Err(Problem::BadLoad(load.to_string()));
        }
        if capacity.as_bps() == 0 {
            return Err(Problem::Zero("the capacity"));
        }
        let gap = 8.0 * mean_bytes / (load * capacity.as_bps() as f64) * 1e12;
        if gap.is_nan() || gap < 1.0 {
            return Err(Problem::TooFast);
        }
        Ok(gap)
    }

    pub(super) fn new(shape: Shape, start: Time, cdf: &Cdf, gap_ps: f64, ends: Ends<'_>) -> Poisson {
        let Ends { pairs, hosts, seed, .. } = ends;
        let senders = senders(&shape, ends, true);
        let mut clocks = Clocks::until(shape.end, senders.len());
        let mut draws = Vec::with_capacity(senders.len());
        for i in 0..senders.len() as u32 {
            let mut gaps = shape.stream(seed, i, Purpose::Arrivals);
            clocks.set(i, start.saturating_add(draw_gap(&mut gaps, gap_ps)));
            draws.push((gaps, shape.stream(seed, i, Purpose::FlowSize)));
        }
        Poisson { shape, cdf: cdf.clone(), gap_ps, senders, draws, clocks, pairs: pairs.clone(), hosts: hosts.clone() }
    }

    pub(super) fn peek(&self) -> Option<Time> {
        self.clocks.peek()
    }

    pub(super) fn next(&mut self) -> Option<FlowSpec> {
        let (at, i) = self.clocks.pop()?;
        let (gaps, sizes) = &mut self.draws[i as usize];
        self.clocks.set(i, at.saturating_add(draw_gap(gaps, self.gap_ps)));
        let size = Bytes(self.cdf.size_at(sizes.uniform()));
        let sender = &mut self.senders[i as usize];
        let dst = sender.destination(&self.pairs, &self.hosts);
        Some(self.shape.flow(at, (sender.src, dst), Some(size), i))
    }
}

/// Rounded to whole picoseconds without bias; saturates.
pub(super) fn draw_gap(stream: &mut Stream, mean_ps: f64) -> Time {
    Time::from_ps(libm::round(stream.exponential(mean_ps)) as u64)
}
