//! The controller's part of a run: schedules by pair of leaves, and new ones after failures.

use crate::experiment::{address, Experiment};
use crate::world::{Event, World};
use edge::Edge;
use sim::{Purpose, Stream};

/// The edge of a host before any controller has spoken: all trees in equal shares.
pub(crate) fn edge(experiment: &Experiment, host: u32, labels: &[u16]) -> Edge {
    let seed = Stream::new(experiment.seed, u64::from(host), Purpose::Edge).next_u64();
    let plain = &experiment.hosts.plain;
    let limiter = experiment.edge.limiter.as_ref().filter(|limiter| limiter.has(host));
    let limits = limiter.map(|l| l.classes.iter().map(|c| c.law).collect()).unwrap_or_default();
    if plain.contains(&host) {
        return Edge::new(edge::Config { limits, seed, ..edge::Config::default() });
    }
    let mut edge = Edge::new(edge::Config {
        balance: experiment.edge.balance,
        reorder: experiment.edge.reorder,
        congestion: experiment.edge.congestion.clone(),
        limits,
        seed,
        ..edge::Config::default()
    });
    edge.set_default_schedule(labels);
    for &other in plain {
        edge.set_schedule(address(other), &[]);
    }
    edge
}

impl World<'_> {
    /// The controller's changes lie as far behind the links' as it takes to react.
    pub(crate) fn schedule_control(&mut self) {
        let Some(controller) = self.experiment.edge.controller else { return };
        self.reschedule();
        for failure in &self.experiment.failures {
            let at = failure.at.saturating_add(controller.reacts_after);
            let control = self.control_node();
            self.scheduler.schedule(at, control, Event::Control);
        }
    }

    /// Gives edges the schedules that fit the links as they are now. A pair of leaves that nothing joins any more keeps the
    /// last one.
    pub(crate) fn reschedule(&mut self) {
        let Some(controller) = self.experiment.edge.controller else { return };
        let experiment = self.experiment;
        let (topology, plain) = (&experiment.topology, &experiment.hosts.plain);
        let failed = self.fabric.failed().to_vec();
        for &src in topology.leaves() {
            for &dst in topology.leaves().iter().filter(|&&dst| dst != src) {
                let Ok(labels) = topology.labels_between(src, dst, &failed, controller.prune) else { continue };
                let before = self.schedules.get(&(src, dst)).unwrap_or(&self.labels);
                if *before == labels {
                    continue;
                }
                for host in topology.hosts_of(src).filter(|host| !plain.contains(host)) {
                    for to in topology.hosts_of(dst).filter(|host| !plain.contains(host)) {
                        self.hosts[host as usize].edge.set_schedule(address(to), &labels);
                    }
                }
                self.schedules.insert((src, dst), labels);
            }
        }
    }
}
