//! Which flows start when and where: the simulator's sources, drawn in advance where nothing depends on completions.

use super::{Error, MAX_FLOWS};
use host::experiment::Experiment;
use host::workload::{FlowSpec, Pattern, Source};
use std::collections::VecDeque;
use units::Time;

/// A flow and its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub(super) flow: u32,
    pub(super) spec: FlowSpec,
    /// Its source wants to be told of its completion.
    pub(super) tell: bool,
    /// When its sender stops, if it has no size; `None`: at the end of the run.
    pub(super) stops: Option<Time>,
    /// See [`Source::lane`].
    pub(super) lane: u32,
}

pub(super) struct Schedule {
    /// All flows so far, by number.
    pub(super) flows: Vec<FlowSpec>,
    /// Per host: what it starts, in order.
    pub(super) hosts: Vec<VecDeque<Start>>,
    /// Sources whose flows depend on completions, by workload.
    closed: Vec<Option<Source>>,
}

/// Not yet numbered.
fn start(source: &mut Source, spec: FlowSpec, tell: bool) -> Start {
    let stops = source.stops_at(&spec).filter(|_| spec.size.is_none());
    Start { flow: 0, spec, tell, stops, lane: source.lane(&spec) }
}

impl Schedule {
    pub(super) fn new(experiment: &Experiment, hosts: usize) -> Result<Schedule, Error> {
        let mut open: Vec<Start> = Vec::new();
        let mut closed = Vec::new();
        for (class, workload) in experiment.workloads.iter().enumerate() {
            let (racks, seed) = (&experiment.racks, experiment.seed);
            let mut source = Source::new(workload, class as u16, racks, seed, experiment.duration)?;
            let open_loop = matches!(
                workload.pattern,
                Pattern::Stride { .. }
                    | Pattern::RandomBijection { .. }
                    | Pattern::Random { .. }
                    | Pattern::Incast { .. }
                    | Pattern::AllToAll { .. }
                    | Pattern::Mice { .. }
                    | Pattern::Poisson { .. }
                    | Pattern::FanOut { .. }
                    | Pattern::List(_)
                    | Pattern::Long { .. }
                    | Pattern::Staircase { .. }
            );
            if !open_loop {
                closed.push(Some(source));
                continue;
            }
            while let Some(spec) = source.next() {
                open.push(start(&mut source, spec, false));
                if open.len() > MAX_FLOWS {
                    return Err(Error::TooManyFlows(MAX_FLOWS));
                }
            }
            closed.push(None);
        }
        // In order of start, of equal ones in order of workload: as the simulator starts them.
        open.sort_by_key(|start| start.spec.start);
        let mut schedule = Schedule { flows: Vec::new(), hosts: vec![VecDeque::new(); hosts], closed };
        for start in open {
            let start = schedule.number(start);
            schedule.hosts[start.spec.src as usize].push_back(start);
        }
        Ok(schedule)
    }

    fn number(&mut self, start: Start) -> Start {
        let flow = self.flows.len() as u32;
        self.flows.push(start.spec);
        Start { flow, ..start }
    }

    /// What sources that depend on completions want to start by `now`.
    pub(super) fn due(&mut self, now: Time) -> Vec<Start> {
        let mut due = Vec::new();
        for class in 0..self.closed.len() {
            let Some(mut source) = self.closed[class].take() else { continue };
            while self.flows.len() < MAX_FLOWS && source.peek().is_some_and(|at| at <= now) {
                let Some(spec) = source.next() else { break };
                due.push(self.number(start(&mut source, spec, true)));
            }
            self.closed[class] = Some(source);
        }
        due
    }

    pub(super) fn complete(&mut self, now: Time, flow: u32) {
        let spec = self.flows[flow as usize];
        if let Some(source) = &mut self.closed[usize::from(spec.class)] {
            source.on_complete(now, &spec);
        }
    }

    /// When the next such flow is due.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.closed.iter().flatten().filter_map(Source::peek).min()
    }

    pub(super) fn bounded(&self) -> u64 {
        self.flows.iter().filter(|spec| spec.size.is_some()).count() as u64
    }
}
