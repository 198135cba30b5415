//! The pattern shuffle: each host sends to every other host, some transfers at a time.

use super::shape::Shape;
use super::{FlowSpec, Problem};
use sim::Purpose;
use std::collections::VecDeque;
use units::{Bytes, Time};

/// [`super::Pattern::Shuffle`]: a closed loop per host.
#[derive(Debug)]
pub(super) struct Shuffle {
    shape: Shape,
    size: Bytes,
    /// Per host: destinations to come, in its random order, the next one last.
    left: Vec<Vec<u32>>,
    /// Per host: flows handed out and not yet complete, so that a completion told twice starts nothing.
    open: Vec<u32>,
    /// (start, host), in order; every entry has a destination left.
    due: VecDeque<(Time, u32)>,
}

impl Shuffle {
    /// `begin[h]` is when host h starts its first flows.
    pub(super) fn new(
        shape: Shape,
        size: Bytes,
        concurrent: u32,
        begin: &[Time],
        seed: u64,
    ) -> Result<Shuffle, Problem> {
        if concurrent == 0 {
            return Err(Problem::Zero("concurrent"));
        }
        let n = begin.len() as u32;
        let mut left = Vec::with_capacity(begin.len());
        let mut first: Vec<(Time, u32)> = Vec::new();
        for (host, &at) in (0..n).zip(begin) {
            let mut order: Vec<u32> = (0..n).filter(|&dst| dst != host).collect();
            shape.stream(seed, host, Purpose::Pairing).shuffle(&mut order);
            left.push(order);
            if at < shape.end {
                first.extend((0..concurrent.min(n - 1)).map(|_| (at, host)));
            }
        }
        first.sort_by_key(|&(at, _)| at);
        Ok(Shuffle { shape, size, left, open: vec![0; begin.len()], due: first.into() })
    }

    pub(super) fn peek(&self) -> Option<Time> {
        self.due.front().map(|&(at, _)| at)
    }

    pub(super) fn next(&mut self) -> Option<FlowSpec> {
        let (at, src) = self.due.pop_front()?;
        let dst = self.left[src as usize].pop()?;
        self.open[src as usize] += 1;
        let tag = self.left[src as usize].len() as u32;
        Some(self.shape.flow(at, (src, dst), Some(self.size), tag))
    }

    pub(super) fn on_complete(&mut self, now: Time, done: &FlowSpec) {
        let Some(open) = self.open.get_mut(done.src as usize).filter(|open| **open > 0) else {
            return;
        };
        *open -= 1;
        let promised = self.due.iter().filter(|&&(_, host)| host == done.src).count();
        if now < self.shape.end && self.left[done.src as usize].len() > promised {
            let after = self.due.partition_point(|&(at, _)| at <= now);
            self.due.insert(after, (now, done.src));
        }
    }
}
