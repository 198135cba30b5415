//! Hosts on a fabric in virtual time: the event loop of a run.
//!
//! A segment's way: application write -> guest TCP -> edge -> NIC queue -> split -> fabric -> receive ring -> poll (GRO,
//! edge) -> guest TCP -> application. Each layer owns the one below and never calls the one above: [`Apps`] over `Transport`
//! over `Network`. What comes up is returned.

use crate::apps::Apps;
use crate::clock::Event;
use crate::collect::{outcome, Measured};
use crate::control::Schedules;
use crate::experiment::Experiment;
use crate::network::Network;
use crate::outcome::Outcome;
use crate::sampling::Sampling;
use crate::transport::Transport;
use crate::workload::{Problem, WorkloadError};
use sim::NodeId;
use units::Time;

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub now: Time,
    pub until: Time,
    pub events: u64,
    pub packet_hops: u64,
}

struct World<'a> {
    apps: Apps<'a>,
    schedules: Schedules,
    sampling: Sampling,
    /// What was measured, once that is over: the drain does not count.
    measured: Option<Measured>,
}

/// Runs an experiment to its end. `progress` is told every 65,536 events.
///
/// # Errors
/// If a workload does not fit the topology.
pub fn run(experiment: &Experiment, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, WorkloadError> {
    let mut world = World::new(experiment)?;
    world.start();
    world.advance(experiment, &mut |now| {
        progress(now);
        false
    });
    Ok(world.finish(experiment.duration.saturating_add(experiment.drain)))
}

/// Runs the beginning of an experiment, for an estimate of the whole. `enough` is asked before the first event, then every 65,536.
/// True if the run ended before it said so.
///
/// # Errors
/// As [`run`].
pub fn begin(experiment: &Experiment, enough: &mut dyn FnMut(Progress) -> bool) -> Result<bool, WorkloadError> {
    let mut world = World::new(experiment)?;
    world.start();
    let until = experiment.duration.saturating_add(experiment.drain);
    Ok(!enough(world.progress(until)) && world.advance(experiment, enough))
}

impl<'a> World<'a> {
    fn new(experiment: &'a Experiment) -> Result<World<'a>, WorkloadError> {
        for workload in &experiment.workloads {
            let law = workload.congestion.unwrap_or(experiment.hosts.tcp.congestion);
            if !law.is_modelled() {
                let (workload, problem) = (workload.name.clone(), Problem::NotModelled(law));
                return Err(WorkloadError { workload, problem });
            }
        }
        let schedules = Schedules::new(&experiment.topology);
        let edges = experiment.topology.hosts().map(|host| schedules.edge(experiment, host));
        let apps = Apps::new(Transport::new(Network::new(experiment, edges)))?;
        Ok(World { apps, schedules, sampling: Sampling::new(experiment), measured: None })
    }

    fn start(&mut self) {
        let net = &mut self.apps.transport.net;
        let experiment = net.experiment;
        for f in &experiment.failures {
            net.schedule_control(f.at, fabric::Event::Link { link: f.link, up: f.up }.into());
        }
        self.schedules.start(net);
        if !net.measuring {
            net.schedule_control(experiment.warmup, Event::BeginMeasurement);
        }
        net.schedule_control(experiment.duration, Event::EndMeasurement);
        if experiment.record.sample_every > Time::ZERO {
            net.schedule_control(experiment.warmup, Event::Sample);
        }
        if experiment.record.probe_every > Time::ZERO {
            net.schedule_control(experiment.warmup, Event::Probe);
        }
        self.apps.start();
    }

    /// Nearly all events are arrivals, which this is inlined for.
    #[inline(always)]
    fn handle(&mut self, node: NodeId, event: Event) {
        match event {
            Event::Arrival { port } => self.apps.transport.net.fabric_event(fabric::Event::Arrival { port }),
            event => self.handle_rarer(node, event),
        }
    }

    #[inline(never)]
    fn handle_rarer(&mut self, node: NodeId, event: Event) {
        let net = &mut self.apps.transport.net;
        match event {
            Event::Arrival { port } => net.fabric_event(fabric::Event::Arrival { port }),
            Event::Link { link, up } => net.fabric_event(fabric::Event::Link { link, up }),
            Event::Reroute => net.fabric_event(fabric::Event::Reroute),
            Event::Release { port } => net.fabric_event(fabric::Event::Release { port }),
            Event::Picked { port } => net.fabric_event(fabric::Event::Picked { port }),
            Event::Control => self.schedules.reschedule(net),
            Event::Tx => {
                if let Some(done) = net.tx_event(node) {
                    self.apps.transport.nic_done(done);
                }
            }
            Event::Served => net.served(node),
            Event::Poll { generation } => self.apps.poll(node, generation),
            Event::Timer { id, generation } => self.apps.timer(node, id, generation),
            Event::Source { index } => self.apps.source_event(index as usize),
            Event::Stop { flow } => self.apps.stop_flow(flow),
            Event::Datagram { number } => self.apps.datagram_event(number),
            Event::Probe => self.apps.probe_event(),
            Event::Discover => net.discover(node),
            Event::Sample => self.sampling.sample(&mut self.apps),
            Event::BeginMeasurement => {
                self.apps.mark_delivered();
                self.apps.transport.net.begin_measurement();
            }
            Event::EndMeasurement => {
                self.apps.mark_delivered();
                let net = &mut self.apps.transport.net;
                net.measuring = false;
                self.measured = Some(Measured::until(net.now(), net));
            }
        }
    }

    /// To the end, or until `enough`, told every 65,536 events and at the end, says so. True at the end.
    fn advance(&mut self, experiment: &Experiment, enough: &mut dyn FnMut(Progress) -> bool) -> bool {
        let until = experiment.duration.saturating_add(experiment.drain);
        while let Some(fired) = self.apps.transport.net.clock.pop_until(until) {
            self.handle(fired.node, fired.event);
            let events = self.apps.transport.net.clock.fired();
            if events % 65_536 == 0 && enough(self.progress(until)) {
                return false;
            }
            // Looking for unfinished flows takes a walk over all connections, so not at every event.
            if fired.at > experiment.duration && events % 1_024 == 0 && self.apps.nothing_left() {
                break;
            }
        }
        enough(self.progress(until));
        true
    }

    fn progress(&self, until: Time) -> Progress {
        let net = &self.apps.transport.net;
        let (now, events, packet_hops) = (net.now(), net.clock.fired(), net.fabric.packet_hops());
        Progress { now, until, events, packet_hops }
    }

    fn finish(mut self, until: Time) -> Outcome {
        self.apps.mark_delivered();
        let net = &mut self.apps.transport.net;
        let ended_at = net.now().min(until);
        let measured = match self.measured {
            Some(measured) => measured,
            None => Measured::until(ended_at, net),
        };
        outcome(self.apps, self.sampling, &measured, ended_at)
    }
}
