//! The pattern sequence: applications that send messages one after another.

use super::pairs::{Ends, Targets};
use super::shape::Shape;
use super::{Cdf, FlowSpec, HostMap, Pairs, Problem, MAX_FLOWS};
use sim::{Purpose, Stream};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::{Bytes, Time};

/// [`super::Pattern::Sequence`]: closed loops, some per sending host.
#[derive(Debug)]
pub(super) struct Sequence {
    shape: Shape,
    size: Cdf,
    pause: Time,
    applications: Vec<Application>,
    /// (start, application) of the messages to come, in order; an application has one or none.
    due: BinaryHeap<Reverse<(Time, u32)>>,
    /// Messages that may still start: a record is kept of each.
    left: u64,
    pairs: Pairs,
    hosts: HostMap,
}

#[derive(Debug)]
struct Application {
    targets: Targets,
    /// Counts messages, from the application's number on its host.
    turn: u64,
    sizes: Stream,
    /// A message is under way.
    open: bool,
}

impl Sequence {
    /// `begin(i)` is when application i sends its first message.
    pub(super) fn new(
        shape: Shape,
        size: &Cdf,
        per_host: u32,
        pause: Time,
        ends: Ends<'_>,
        begin: &dyn Fn(u32) -> Time,
    ) -> Result<Sequence, Problem> {
        let Ends { fixed, pairs, hosts, seed } = ends;
        if per_host == 0 {
            return Err(Problem::Zero("applications"));
        }
        let senders = Targets::per_host(fixed, hosts);
        let total = senders.len() as u64 * u64::from(per_host);
        if total > super::MAX_DRAWN {
            return Err(Problem::TooManyFlows { flows: total });
        }
        let mut applications = Vec::with_capacity(total as usize);
        let mut due = BinaryHeap::with_capacity(total as usize);
        for (src, dsts) in senders {
            for turn in 0..u64::from(per_host) {
                let i = applications.len() as u32;
                applications.push(Application {
                    targets: Targets::new(src, dsts.clone(), shape.stream(seed, i, Purpose::Pairing)),
                    turn,
                    sizes: shape.stream(seed, i, Purpose::FlowSize),
                    open: false,
                });
                if begin(i) < shape.end {
                    due.push(Reverse((begin(i), i)));
                }
            }
        }
        Ok(Sequence {
            shape,
            size: size.clone(),
            pause,
            applications,
            due,
            left: MAX_FLOWS as u64,
            pairs: pairs.clone(),
            hosts: hosts.clone(),
        })
    }

    pub(super) fn peek(&self) -> Option<Time> {
        self.due.peek().map(|&Reverse((at, _))| at).filter(|_| self.left > 0)
    }

    pub(super) fn next(&mut self) -> Option<FlowSpec> {
        self.peek()?;
        let Reverse((at, i)) = self.due.pop()?;
        self.left -= 1;
        let application = &mut self.applications[i as usize];
        let size = Bytes(self.size.size_at(application.sizes.uniform()));
        let dst = application.targets.in_turn(application.turn, &self.pairs, &self.hosts);
        application.turn += 1;
        application.open = true;
        Some(self.shape.flow(at, (application.targets.src, dst), Some(size), i))
    }

    pub(super) fn on_complete(&mut self, now: Time, done: &FlowSpec) {
        let Some(application) = self.applications.get_mut(done.tag as usize).filter(|a| a.open) else { return };
        application.open = false;
        let next = now.saturating_add(self.pause);
        if next < self.shape.end {
            self.due.push(Reverse((next, done.tag)));
        }
    }
}
