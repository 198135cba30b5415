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
use crate::network::{work, Network};
use crate::outcome::Outcome;
use crate::sampling::Sampling;
use crate::transport::Transport;
use crate::workload::{Problem, WorkloadError};
use fabric::Part;
use sim::{Crew, NodeId};
use units::Time;

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub now: Time,
    pub until: Time,
    pub events: u64,
    pub packet_hops: u64,
}

/// Events of hosts between two reports.
const TELL_EVERY: u64 = 65_536;

/// How often a run looks in its drain whether anything is left to do, which takes a walk over all connections.
fn check_every(experiment: &Experiment) -> Time {
    (experiment.drain / 1_000).max(Time::from_us(1))
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
    run_on(experiment, 1, progress)
}

/// The same on so many threads, this one included. The outcome is the same. A fabric that cannot be cut runs on one, see
/// [`crate::Windows::refused`].
///
/// # Errors
/// As [`run`].
pub fn run_on(
    experiment: &Experiment,
    threads: usize,
    progress: &mut dyn FnMut(Progress),
) -> Result<Outcome, WorkloadError> {
    let mut world = World::new(experiment)?;
    let crew = if threads > 1 { world.apps.transport.net.split(threads).map(Some) } else { Ok(None) };
    world.start();
    let mut go = |world: &mut World<'_>| {
        world.advance(experiment, &mut |now| {
            progress(now);
            false
        });
    };
    let mut refused = None;
    match crew {
        Ok(Some(crew)) => std::thread::scope(|scope| {
            let crew = &*crew;
            for _ in 1..threads {
                scope.spawn(|| crew.serve(&work));
            }
            let _dismissal = Dismissal(crew);
            go(&mut world);
        }),
        Ok(None) => go(&mut world),
        Err(why) => {
            refused = Some(why);
            go(&mut world);
        }
    }
    let mut outcome = world.finish(experiment.duration.saturating_add(experiment.drain));
    outcome.windows.refused = refused;
    Ok(outcome)
}

/// Sends other threads home, also if this one panics.
struct Dismissal<'a>(&'a Crew<Part>);

impl Drop for Dismissal<'_> {
    fn drop(&mut self) {
        self.0.dismiss();
    }
}

/// The beginning of a run.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    /// It was the whole run.
    pub ended: bool,
    /// Payload of flows of bounded size that has arrived, bytes.
    pub delivered: u64,
}

/// Runs the beginning of an experiment, for an estimate of the whole. `enough` is asked before the first event, then every 65,536.
///
/// # Errors
/// As [`run`].
pub fn begin(experiment: &Experiment, enough: &mut dyn FnMut(Progress) -> bool) -> Result<Begun, WorkloadError> {
    let mut world = World::new(experiment)?;
    world.start();
    let until = experiment.duration.saturating_add(experiment.drain);
    let ended = !enough(world.progress(until)) && world.advance(experiment, enough);
    world.apps.mark_delivered();
    Ok(Begun {
        ended,
        delivered: world.apps.flows.iter().filter(|flow| flow.size.is_some()).map(|flow| flow.delivered).sum(),
    })
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
        let schedules = Schedules::new(experiment);
        let edges = experiment.topology.hosts().map(|host| schedules.edge(experiment, host));
        let apps = Apps::new(Transport::new(Network::new(experiment, edges)))?;
        Ok(World { apps, schedules, sampling: Sampling::new(experiment), measured: None })
    }

    fn start(&mut self) {
        let net = &mut self.apps.transport.net;
        let experiment = net.experiment;
        for f in &experiment.failures {
            net.schedule_global(f.at, fabric::Event::Link { link: f.link, up: f.up }.into());
        }
        self.schedules.start(net);
        if !net.measuring {
            net.schedule_global(experiment.warmup, Event::BeginMeasurement);
        }
        net.schedule_global(experiment.duration, Event::EndMeasurement);
        if experiment.drain > Time::ZERO {
            net.schedule_global(experiment.duration.saturating_add(check_every(experiment)), Event::Check);
        }
        if experiment.record.sample_every > Time::ZERO {
            net.schedule_global(experiment.warmup, Event::Sample);
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
            Event::Release { port } => net.fabric_event(fabric::Event::Release { port }),
            Event::Picked { port } => net.fabric_event(fabric::Event::Picked { port }),
            Event::Tx => {
                if let Some(done) = net.tx_event(node) {
                    self.apps.transport.nic_done(done);
                }
                while let Some(dropped) = self.apps.transport.net.poll_dropped(node) {
                    self.apps.transport.nic_done(dropped);
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
            Event::Link { .. }
            | Event::Reroute
            | Event::Control
            | Event::Sample
            | Event::Check
            | Event::BeginMeasurement
            | Event::EndMeasurement => debug_assert!(false, "{event:?} concerns the whole network"),
        }
    }

    /// Something that concerns the whole network. True: the run is over.
    fn handle_global(&mut self, event: Event) -> bool {
        let net = &mut self.apps.transport.net;
        match event {
            Event::Link { link, up } => net.set_link(link, up),
            Event::Reroute => net.reroute(),
            Event::Control => self.schedules.reschedule(net),
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
            Event::Check => {
                if self.apps.nothing_left() {
                    return true;
                }
                let net = &mut self.apps.transport.net;
                let next = net.now().saturating_add(check_every(net.experiment));
                net.schedule_global(next, Event::Check);
            }
            _ => debug_assert!(false, "{event:?} belongs to a node"),
        }
        false
    }

    /// To the end, or until `enough`, told every 65,536 events and at the end, says so. True at the end.
    fn advance(&mut self, experiment: &Experiment, enough: &mut dyn FnMut(Progress) -> bool) -> bool {
        let until = experiment.duration.saturating_add(experiment.drain);
        loop {
            let limit = self.apps.transport.net.next_global().map_or(until, |at| at.min(until));
            let told = &mut |world: &mut Self| enough(world.progress(until));
            let go_on = match self.apps.transport.net.elsewhere.as_ref().map(|there| there.crew.clone()) {
                Some(crew) => self.advance_by_windows(limit, &crew, told),
                None => self.advance_alone(limit, told),
            };
            if !go_on {
                return false;
            }
            let fired = self.apps.transport.net.pop_global(limit);
            if fired.is_none_or(|fired| self.handle_global(fired.event)) {
                self.apps.transport.net.end(limit);
                break;
            }
        }
        enough(self.progress(until));
        true
    }

    /// Up to `limit`. False: it was enough.
    fn advance_alone(&mut self, limit: Time, enough: &mut dyn FnMut(&mut Self) -> bool) -> bool {
        while self.handle_until(limit) {
            if enough(self) {
                return false;
            }
        }
        true
    }

    /// Hosts' events up to `limit`, 65,536 at most. True: it was as many.
    #[inline(never)]
    fn handle_until(&mut self, limit: Time) -> bool {
        while let Some(fired) = self.apps.transport.net.clock.pop_until(limit) {
            self.handle(fired.node, fired.event);
            if self.apps.transport.net.clock.fired() % TELL_EVERY == 0 {
                return true;
            }
        }
        false
    }

    /// The same, the hosts' part here and the others on whatever thread is free.
    fn advance_by_windows(
        &mut self,
        limit: Time,
        crew: &Crew<Part>,
        enough: &mut dyn FnMut(&mut Self) -> bool,
    ) -> bool {
        while let Some(until) = self.apps.transport.net.next_window(limit) {
            let before = self.apps.transport.net.clock.fired();
            let own = || {
                self.apps.transport.net.fetch();
                while self.handle_until(until) {}
                self.apps.transport.net.post(until);
            };
            let ((), next) = crew.round(until.as_ps(), &work, own);
            let net = &mut self.apps.transport.net;
            let fired = net.clock.fired();
            net.end_window(Time::from_ps(next), fired - before);
            if fired / TELL_EVERY != before / TELL_EVERY && enough(self) {
                return false;
            }
        }
        true
    }

    fn progress(&mut self, until: Time) -> Progress {
        let net = &mut self.apps.transport.net;
        let (now, events, packet_hops) = (net.now(), net.events(), net.packet_hops());
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
