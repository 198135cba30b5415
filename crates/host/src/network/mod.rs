//! Below the guests: the fabric, and every host's NIC and edge.
//!
//! A segment's way down is in `tx`, the way up in `rx`. Nothing here knows connections: what came up, and what has left the
//! NIC, is returned to the caller.

mod cpu;
mod discover;
mod discoverer;
mod host;
mod parts;
mod rx;
mod server;
mod tx;
mod windows;

use crate::clock::{Clock, Event, Owner};
use crate::delays::Delays;
use crate::experiment::{EdgeConfig, Experiment, Limiter};
use crate::ports;
use edge::limiter::Standing;
use edge::shape::Htb;
use edge::Edge;
use fabric::{Fabric, Packet};
pub(crate) use host::{Host, InNic};
use sim::{Fired, NodeId, Purpose, Scheduler, Stream};
use units::Time;
pub(crate) use windows::work;

pub(crate) struct Network<'a> {
    pub(crate) experiment: &'a Experiment,
    pub(crate) clock: Clock,
    /// What concerns the whole network. At its time, all else comes first.
    globals: Scheduler<Event>,
    /// The fabric, or of one that is cut what hosts have of it.
    pub(crate) fabric: Fabric,
    pub(crate) hosts: Vec<Host>,
    /// They make packets of their own, too.
    pub(crate) edge_has_timers: bool,
    /// The measured part of the run is under way.
    pub(crate) measuring: bool,
    pub(crate) limiters: Limiters,
    /// From a packet's arrival until its host has handled it, in the measured part.
    pub(crate) server_delays: Delays,
    /// By host; `None`: edges are given their labels.
    discoverers: Option<Vec<discoverer::Discoverer>>,
    /// Parts of the fabric that other threads run.
    pub(crate) elsewhere: Option<windows::Elsewhere>,
}

/// What limiters did to segments.
#[derive(Debug, Default)]
pub(crate) struct Limiters {
    /// How long segments waited, in the measured part.
    pub(crate) delays: Vec<Time>,
    /// Most bytes that waited in one class.
    pub(crate) backlog_max: u64,
}

/// What became of a segment that a guest sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    /// It waits for the NIC, or is on the wire, with this label.
    Queued { label: u16 },
    /// The limiter had no room for it.
    NoRoom { label: u16 },
    /// The edge dropped it.
    Dropped,
}

impl<'a> Network<'a> {
    /// `edges` of all hosts, in their order.
    pub(crate) fn new(experiment: &'a Experiment, edges: impl Iterator<Item = Edge>) -> Network<'a> {
        let seed = experiment.seed;
        let mut fabric = Fabric::new(
            &experiment.topology,
            &experiment.switches,
            experiment.multipath,
            experiment.loss,
            experiment.reroute_after,
            seed,
        );
        if let Some((port, limit)) = experiment.record.capture {
            fabric.set_tap(Some(fabric::Tap { port, limit: limit as usize, packets: Vec::new() }));
        }
        let mut clock = Clock::default();
        let hosts = experiment.topology.hosts().zip(edges).map(|(host, edge)| {
            let limiter = experiment.edge.limiter.as_ref().filter(|limiter| limiter.has(host));
            let first_port = Stream::new(seed, u64::from(host), Purpose::Ports).below(20_000) as u16;
            // A hierarchy that cannot work limits nothing; scenarios refuse it before.
            let shaper = limiter.and_then(|limiter| Htb::new(&limiter.shaper()).ok());
            let server = experiment.hosts.server.map(server::Server::new);
            Host { server, ..Host::new(edge, clock.add_timer(Owner::Edge(host)), shaper, 10_000 + first_port) }
        });
        let mut hosts: Vec<Host> = hosts.collect();
        if experiment.edge.hidden && experiment.edge.discovery.is_none() {
            ports::give(experiment, &mut fabric, hosts.iter_mut().map(|host| &mut host.edge));
        }
        if hosts.iter().any(|host| host.edge.asks_for_utilisation()) {
            fabric.measure_utilisation();
        }
        let measuring = experiment.warmup == Time::ZERO;
        let discoverers = experiment.edge.discovery.as_ref().map(|config| discoverer::all(experiment, config));
        Network {
            experiment,
            clock,
            globals: Scheduler::new(),
            fabric,
            hosts,
            edge_has_timers: edge_has_timers(&experiment.edge),
            measuring,
            limiters: Limiters::default(),
            server_delays: Delays::default(),
            discoverers,
            elsewhere: None,
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// The node that events of no particular host belong to: after all others.
    pub(crate) fn control_node(&self) -> NodeId {
        self.experiment.topology.nodes.len() as NodeId
    }

    pub(crate) fn schedule_control(&mut self, at: Time, event: Event) {
        let node = self.control_node();
        self.clock.schedule(at, node, event);
    }

    /// Schedules what concerns the whole network.
    pub(crate) fn schedule_global(&mut self, at: Time, event: Event) {
        let node = self.control_node();
        self.globals.schedule(at, node, event);
    }

    pub(crate) fn next_global(&self) -> Option<Time> {
        self.globals.next_at()
    }

    /// The next event of the whole network that is due at or before `until`, when all else up to there has happened.
    pub(crate) fn pop_global(&mut self, until: Time) -> Option<Fired<Event>> {
        let fired = self.globals.pop_until(until)?;
        self.clock.advance(fired.at);
        Some(fired)
    }

    #[inline(always)]
    pub(crate) fn fabric_event(&mut self, event: fabric::Event) {
        if let Some(delivery) = self.fabric.handle(event, self.clock.scheduler()) {
            self.arrived(delivery.host, delivery.packet);
        }
    }

    /// How the class of the limiter stands that a segment is about to enter.
    fn arrival(&mut self, segment: &Packet) -> Option<Standing> {
        let shaper = self.hosts[segment.src as usize].shaper.as_mut()?;
        let class = self.experiment.edge.limiter.as_ref()?.class_of(segment.dst)?;
        let bytes = Limiter::bytes(&segment.headers);
        Some(shaper.arrival(class, &segment.headers, bytes, self.clock.now()))
    }

    fn set_edge_timer(&mut self, host: u32) {
        let h = &self.hosts[host as usize];
        let (timer, deadline) = (h.edge_timer, h.edge.poll_timeout());
        self.clock.set_timer(timer, deadline, host);
    }
}

/// Edges that follow connections make packets of their own, and have timers; so have those that keep states of paths.
fn edge_has_timers(edge: &EdgeConfig) -> bool {
    edge.congestion.is_some()
        || edge.limiter.is_some()
        || edge.tenants.is_some()
        || edge.fastlane.is_some()
        || edge.balance.keeps().is_some()
}

fn standing<T>(experiment: &Experiment, shaper: &Htb<T>, to: u32, now: Time) -> Option<Standing> {
    let class = experiment.edge.limiter.as_ref()?.class_of(to)?;
    Some(shaper.standing(class, now))
}
