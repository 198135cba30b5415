//! The controller's part of a run: schedules by pair of leaves, and new ones after failures.

use crate::clock::Event;
use crate::experiment::{address, edge_address, guest_address, Experiment};
use crate::network::Network;
use crate::ports::{turned, GUESSED};
use edge::hidden::Peers;
use edge::Edge;
use rustc_hash::FxHashMap;
use sim::{Purpose, Stream};
use std::sync::Arc;
use topology::NodeId;

/// What the controller has told edges.
#[derive(Debug)]
pub(crate) struct Schedules {
    /// Of all trees: what every edge begins with.
    all: Vec<u16>,
    /// A controller's schedules, by source and destination leaf. Looked up only.
    by_pair: FxHashMap<(NodeId, NodeId), Vec<u16>>,
    /// Of the hidden overlay.
    peers: Option<Arc<Peers>>,
}

impl Schedules {
    pub(crate) fn new(experiment: &Experiment) -> Schedules {
        Schedules {
            all: (1..=experiment.topology.base_trees().len() as u16).collect(),
            by_pair: FxHashMap::default(),
            peers: experiment.hidden_peers(),
        }
    }

    /// The edge of a host before any controller has spoken: all trees in equal shares.
    pub(crate) fn edge(&self, experiment: &Experiment, host: u32) -> Edge {
        let seed = seed(experiment, host);
        let plain = &experiment.hosts.plain;
        let limiter = experiment.edge.limiter.as_ref().filter(|limiter| limiter.has(host));
        let limits = limiter.map(|l| l.classes.iter().map(|c| c.law).collect()).unwrap_or_default();
        if plain.contains(&host) {
            return Edge::new(edge::Config { limits, seed, ..edge::Config::default() });
        }
        let links = &experiment.topology.links;
        let uplink = links[experiment.topology.host_link(host) as usize].rate;
        let mut edge = Edge::new(edge::Config {
            balance: experiment.edge.balance,
            reorder: experiment.edge.reorder,
            congestion: experiment.edge.congestion.clone(),
            limits,
            hygenicc: experiment.edge.tenants.as_ref().map(|tenants| tenants.of(host, uplink)),
            fastlane: experiment.edge.fastlane,
            hidden: self.peers.clone().map(|peers| edge::hidden::Config {
                address: edge_address(host),
                peers,
                mtu: experiment.hosts.mtu,
            }),
            seed,
            ..edge::Config::default()
        });
        match experiment.edge.discovery {
            _ if experiment.edge.hidden => edge.set_default_schedule(&GUESSED),
            Some(_) => edge.set_default_schedule(&GUESSED),
            None => edge.set_default_schedule(&turned(&experiment.edge.balance, seed, &self.all)),
        }
        for &other in plain {
            set_schedule(&mut edge, experiment, other, &[]);
        }
        if experiment.edge.balance.keeps().is_some() {
            // All guests of a host are behind one edge, which tells of its paths.
            for guest in experiment.guests().filter(|&guest| guest > 0) {
                for other in experiment.topology.hosts().filter(|other| !plain.contains(other)) {
                    edge.share_paths(guest_address(other, guest), address(other));
                }
            }
        }
        edge
    }

    /// The controller's changes lie as far behind the links' as it takes to react.
    pub(crate) fn start(&mut self, net: &mut Network<'_>) {
        let Some(controller) = net.experiment.edge.controller else { return };
        self.reschedule(net);
        for failure in &net.experiment.failures {
            net.schedule_global(failure.at.saturating_add(controller.reacts_after), Event::Control);
        }
    }

    /// Gives edges the schedules that fit the links as they are now. A pair of leaves that nothing joins any more keeps the
    /// last one.
    pub(crate) fn reschedule(&mut self, net: &mut Network<'_>) {
        let Some(controller) = net.experiment.edge.controller else { return };
        let (topology, plain) = (&net.experiment.topology, &net.experiment.hosts.plain);
        let failed = net.fabric.failed().to_vec();
        for &src in topology.leaves() {
            for &dst in topology.leaves().iter().filter(|&&dst| dst != src) {
                let Ok(labels) = topology.labels_between(src, dst, &failed, controller.prune) else { continue };
                let before = self.by_pair.get(&(src, dst)).unwrap_or(&self.all);
                if *before == labels {
                    continue;
                }
                for host in topology.hosts_of(src).filter(|host| !plain.contains(host)) {
                    let labels = turned(&net.experiment.edge.balance, seed(net.experiment, host), &labels);
                    for to in topology.hosts_of(dst).filter(|host| !plain.contains(host)) {
                        set_schedule(&mut net.hosts[host as usize].edge, net.experiment, to, &labels);
                    }
                }
                self.by_pair.insert((src, dst), labels);
            }
        }
    }
}

fn seed(experiment: &Experiment, host: u32) -> u64 {
    Stream::new(experiment.seed, u64::from(host), Purpose::Edge).next_u64()
}

/// For all guests of the host `to`.
fn set_schedule(edge: &mut Edge, experiment: &Experiment, to: u32, labels: &[u16]) {
    for guest in experiment.guests() {
        edge.set_schedule(guest_address(to, guest), labels);
    }
}
