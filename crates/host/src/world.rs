//! Hosts on a fabric in virtual time: the event loop of a run.
//!
//! A segment's way: application write -> guest TCP -> edge -> NIC queue -> split -> fabric -> receive ring -> poll (GRO,
//! edge) -> guest TCP -> application. `tx.rs`, `rx.rs` and `apps.rs` hold one stretch of it each.

use crate::connection::Connection;
use crate::control;
use crate::experiment::Experiment;
use crate::host::Host;
use crate::mptcp;
use crate::outcome::{FlowRecord, Outcome};
use crate::sampling::{Measured, Sampling};
use crate::tcp;
use crate::workload::{Problem, Source, WorkloadError};
use edge::shape::Htb;
use fabric::Fabric;
use rustc_hash::FxHashMap;
use sim::{NodeId, Purpose, Scheduler, Stream, TimerId, Timers};
use std::sync::Arc;
use units::Time;

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub now: Time,
    pub until: Time,
    pub events: u64,
    pub packet_hops: u64,
}

/// The fabric's events stand flat among the host's, which keeps an event at eight bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Arrival {
        port: u32,
    },
    Link {
        link: u32,
        up: bool,
    },
    Reroute,
    /// A controller changes schedules.
    Control,
    /// The transmit side of a host may go on.
    Tx,
    /// A host's receive poll.
    Poll {
        generation: u16,
    },
    Timer {
        id: TimerId,
        generation: u16,
    },
    /// A workload's next flow starts.
    Source {
        index: u32,
    },
    /// A flow without an end stops all the same.
    Stop {
        flow: u32,
    },
    Probe,
    Sample,
    BeginMeasurement,
    EndMeasurement,
}

impl From<fabric::Event> for Event {
    fn from(event: fabric::Event) -> Event {
        match event {
            fabric::Event::Arrival { port } => Event::Arrival { port },
            fabric::Event::Link { link, up } => Event::Link { link, up },
            fabric::Event::Reroute => Event::Reroute,
        }
    }
}

/// The event queue moves these through its heap.
const _: () = assert!(size_of::<Event>() == 8);

/// Whose timer it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    End(crate::connection::EndId),
    Edge(u32),
}

pub(crate) struct World<'a> {
    pub experiment: &'a Experiment,
    pub scheduler: Scheduler<Event>,
    pub timers: Timers,
    pub owners: Vec<Owner>,
    pub fabric: Fabric,
    /// Routes of the whole fabric, for ideal completion times.
    pub routes: topology::Routes,
    pub hosts: Vec<Host>,
    /// Of all trees: what every edge begins with.
    pub labels: Vec<u16>,
    /// A controller's schedules, by source and destination leaf. Looked up only.
    pub schedules: FxHashMap<(topology::NodeId, topology::NodeId), Vec<u16>>,
    pub connections: Vec<Connection>,
    pub free_connections: Vec<u32>,
    /// MPTCP connections.
    pub groups: Vec<mptcp::Group>,
    pub free_groups: Vec<u32>,
    /// Persistent connections by (class, client, server, lane).
    pub persistent: FxHashMap<(u16, u32, u32, u32), u32>,
    /// Per workload.
    pub tcp: Vec<Arc<tcp::Config>>,
    pub sources: Vec<Source>,
    /// When each source's pending event fires.
    pub source_at: Vec<Option<Time>>,
    pub flows: Vec<FlowRecord>,
    pub sampling: Sampling,
    pub transport_random: Stream,
    pub measuring: bool,
    /// What was measured, once that is over: the drain does not count.
    pub measured: Option<Measured>,
    /// Reused buffers.
    pub up: Vec<crate::gro::RxSegment>,
}

/// Runs an experiment to its end. `progress` is told every 65,536 events.
///
/// # Errors
/// If a workload does not fit the topology.
pub fn run(experiment: &Experiment, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, WorkloadError> {
    let mut world = World::new(experiment)?;
    world.start();
    let until = experiment.duration.saturating_add(experiment.drain);
    while let Some(fired) = world.scheduler.pop_until(until) {
        world.handle(fired.node, fired.event);
        if world.scheduler.fired() % 65_536 == 0 {
            progress(world.progress(until));
        }
        // Looking for unfinished flows takes a walk over all connections, so not at every event.
        if fired.at > experiment.duration && world.scheduler.fired() % 1_024 == 0 && world.nothing_left() {
            break;
        }
    }
    progress(world.progress(until));
    Ok(world.finish(until))
}

impl<'a> World<'a> {
    pub(crate) fn new(experiment: &'a Experiment) -> Result<World<'a>, WorkloadError> {
        let topology = &experiment.topology;
        let seed = experiment.seed;
        for workload in &experiment.workloads {
            let law = workload.congestion.unwrap_or(experiment.hosts.tcp.congestion);
            if !law.is_modelled() {
                let (workload, problem) = (workload.name.clone(), Problem::NotModelled(law));
                return Err(WorkloadError { workload, problem });
            }
        }
        let mut fabric = Fabric::new(
            topology,
            &experiment.switches,
            experiment.multipath,
            experiment.loss,
            experiment.reroute_after,
            seed,
        );
        let sources = experiment
            .workloads
            .iter()
            .enumerate()
            .map(|(i, w)| Source::new(w, i as u16, &experiment.racks, seed, experiment.duration))
            .collect::<Result<Vec<_>, _>>()?;
        let mut config = experiment.hosts.tcp.clone();
        config.mss = experiment.hosts.mtu.saturating_sub(40);
        config.tso = experiment.hosts.tso;
        let tcp = experiment
            .workloads
            .iter()
            .map(|w| {
                let congestion = w.congestion.unwrap_or(config.congestion);
                let mut own = tcp::Config { congestion, obey_window: !w.ignore_window, ..config.clone() };
                if let Some(cap) = w.rate_cap {
                    own.pacing = true;
                    own.max_pacing_rate = (cap.as_bps() / 8).max(1);
                }
                if let Some(mptcp) = experiment.hosts.mptcp.filter(|_| !own.pacing) {
                    own.congestion = mptcp.congestion;
                }
                Arc::new(own)
            })
            .collect();
        if let Some((port, limit)) = experiment.record.capture {
            fabric.set_tap(Some(fabric::Tap { port, limit: limit as usize, packets: Vec::new() }));
        }
        let (mut timers, mut owners) = (Timers::default(), Vec::new());
        let labels: Vec<u16> = (1..=topology.trees(&[]).len() as u16).collect();
        let hosts = topology
            .hosts()
            .map(|host| {
                let limiter = experiment.edge.limiter.as_ref().filter(|limiter| limiter.has(host));
                owners.push(Owner::Edge(host));
                let first_port = Stream::new(seed, u64::from(host), Purpose::Ports).below(20_000) as u16;
                // A hierarchy that cannot work limits nothing; scenarios refuse it before.
                let shaper = limiter.and_then(|limiter| Htb::new(&limiter.shaper()).ok());
                Host::new(control::edge(experiment, host, &labels), timers.add(), shaper, 10_000 + first_port)
            })
            .collect();
        Ok(World {
            experiment,
            scheduler: Scheduler::new(),
            timers,
            owners,
            fabric,
            routes: topology.routes(&[]),
            hosts,
            labels,
            schedules: FxHashMap::default(),
            connections: Vec::new(),
            free_connections: Vec::new(),
            groups: Vec::new(),
            free_groups: Vec::new(),
            persistent: FxHashMap::default(),
            tcp,
            source_at: vec![None; sources.len()],
            sources,
            flows: Vec::new(),
            sampling: Sampling::new(experiment),
            transport_random: Stream::new(seed, 0, Purpose::Transport),
            measuring: experiment.warmup == Time::ZERO,
            measured: None,
            up: Vec::new(),
        })
    }

    /// The node that events of no particular host belong to: after all others.
    pub(crate) fn control_node(&self) -> NodeId {
        self.experiment.topology.nodes.len() as NodeId
    }

    fn start(&mut self) {
        let control = self.control_node();
        for f in &self.experiment.failures {
            let event = fabric::Event::Link { link: f.link, up: f.up };
            self.scheduler.schedule(f.at, control, event.into());
        }
        self.schedule_control();
        if !self.measuring {
            self.scheduler.schedule(self.experiment.warmup, control, Event::BeginMeasurement);
        }
        self.scheduler.schedule(self.experiment.duration, control, Event::EndMeasurement);
        if self.experiment.record.sample_every > Time::ZERO {
            self.scheduler.schedule(self.experiment.warmup, control, Event::Sample);
        }
        if self.experiment.record.probe_every > Time::ZERO {
            self.scheduler.schedule(self.experiment.warmup, control, Event::Probe);
        }
        for index in 0..self.sources.len() {
            self.schedule_source(index);
        }
    }

    fn handle(&mut self, node: NodeId, event: Event) {
        match event {
            Event::Arrival { port } => self.fabric_event(fabric::Event::Arrival { port }),
            Event::Link { link, up } => self.fabric_event(fabric::Event::Link { link, up }),
            Event::Reroute => self.fabric_event(fabric::Event::Reroute),
            Event::Control => self.reschedule(),
            Event::Tx => self.tx_event(node),
            Event::Poll { generation } => self.poll(node, generation),
            Event::Timer { id, generation } => self.timer(node, id, generation),
            Event::Source { index } => self.source_event(index as usize),
            Event::Stop { flow } => self.stop_flow(flow),
            Event::Probe => self.probe_event(),
            Event::Sample => self.sample_event(),
            Event::BeginMeasurement => self.begin_measurement(),
            Event::EndMeasurement => self.end_measurement(),
        }
    }

    #[inline]
    fn fabric_event(&mut self, event: fabric::Event) {
        if let Some(delivery) = self.fabric.handle(event, &mut self.scheduler) {
            self.receive(delivery.host, delivery.packet);
        }
    }

    fn timer(&mut self, node: NodeId, id: TimerId, generation: u16) {
        let event = |id, generation| Event::Timer { id, generation };
        if !self.timers.fire(id, generation, node, &mut self.scheduler, event) {
            return;
        }
        let now = self.scheduler.now();
        match self.owners[id as usize] {
            Owner::End(end) => {
                let connection = &mut self.connections[end.connection()];
                if connection.live {
                    let sender = &mut connection.ends[end.end()];
                    let timeouts = sender.tx.counters.timeouts;
                    sender.handle_timeout(now);
                    if sender.tx.counters.timeouts > timeouts {
                        self.after_timeout(end);
                    }
                    self.after_tcp(end);
                }
            }
            Owner::Edge(host) => {
                self.hosts[host as usize].edge.handle_timeout(now);
                self.drain_edge(host);
            }
        }
    }

    pub(crate) fn set_timer(&mut self, id: TimerId, deadline: Option<Time>, node: NodeId) {
        let event = |id, generation| Event::Timer { id, generation };
        self.timers.set(id, deadline, node, &mut self.scheduler, event);
    }

    fn begin_measurement(&mut self) {
        self.mark_delivered();
        self.measuring = true;
        self.fabric.begin_measurement(self.scheduler.now());
        for host in &mut self.hosts {
            host.tx_cpu_busy = Time::ZERO;
            host.rx_cpu_busy = Time::ZERO;
        }
    }

    fn end_measurement(&mut self) {
        self.mark_delivered();
        self.measuring = false;
        self.measured = Some(self.measured_until(self.scheduler.now()));
    }

    fn progress(&self, until: Time) -> Progress {
        Progress {
            now: self.scheduler.now(),
            until,
            events: self.scheduler.fired(),
            packet_hops: self.fabric.packet_hops(),
        }
    }
}
