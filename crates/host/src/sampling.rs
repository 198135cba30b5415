//! Series: the state of network and flows at every sampling instant.

use crate::apps::Apps;
use crate::clock::Event;
use crate::connection::CLIENT;
use crate::connection::SERVER;
use crate::experiment::{guest_address, Experiment};
use crate::outcome::Weights;
use std::collections::BTreeMap;
use units::Time;

#[derive(Debug, Default)]
pub(crate) struct Sampling {
    /// Per port.
    pub(crate) queues: Vec<Vec<u32>>,
    pub(crate) utilisation: Vec<Vec<f32>>,
    busy_before: Vec<Time>,
    /// Per flow record, bytes of each interval.
    pub(crate) goodput: BTreeMap<u32, Vec<u64>>,
    /// Per flow record: the window of virtual congestion control and the guest's own, bytes.
    pub(crate) windows: BTreeMap<u32, Vec<(u32, u32)>>,
    /// At each sampling instant: bytes that wait in each class of each limiter.
    pub(crate) limiter_backlogs: Vec<u32>,
    pub(crate) weights: Vec<Weights>,
    /// The first sampling instant has passed. It only sets the baseline of the series.
    begun: bool,
    /// Bytes of each unbounded flow at the last sampling instant.
    delivered_before: BTreeMap<u32, u64>,
}

impl Sampling {
    pub(crate) fn new(experiment: &Experiment) -> Sampling {
        let ports = 2 * experiment.topology.links.len();
        Sampling {
            queues: vec![Vec::new(); ports],
            utilisation: vec![Vec::new(); ports],
            busy_before: vec![Time::ZERO; ports],
            ..Sampling::default()
        }
    }

    /// A sampling instant.
    pub(crate) fn sample(&mut self, apps: &mut Apps<'_>) {
        let record = &apps.transport.net.experiment.record;
        let first = !std::mem::replace(&mut self.begun, true);
        self.sample_ports(apps, first);
        if !first {
            self.sample_limiters(apps);
        }
        self.sample_flows(apps, first);
        if record.weights {
            self.sample_weights(apps);
        }
        let net = &mut apps.transport.net;
        let next = net.now() + record.sample_every;
        if next <= net.experiment.duration {
            net.schedule_global(next, Event::Sample);
        }
    }

    fn sample_ports(&mut self, apps: &mut Apps<'_>, first: bool) {
        let net = &mut apps.transport.net;
        let every = net.experiment.record.sample_every;
        for port in 0..net.fabric.n_ports() {
            let queue = net.queue_bytes(port as u32);
            let busy = net.busy(port as u32);
            if first {
                self.busy_before[port] = busy;
                continue;
            }
            self.queues[port].push(queue.min(u64::from(u32::MAX)) as u32);
            let since = busy.saturating_sub(self.busy_before[port]);
            self.utilisation[port].push((since.as_secs_f64() / every.as_secs_f64()).min(1.0) as f32);
            self.busy_before[port] = busy;
        }
    }

    fn sample_limiters(&mut self, apps: &Apps<'_>) {
        for shaper in apps.transport.net.hosts.iter().filter_map(|h| h.shaper.as_ref()) {
            let backlogs = (0..shaper.classes()).map(|class| shaper.backlog(class).min(u64::from(u32::MAX)) as u32);
            self.limiter_backlogs.extend(backlogs);
        }
    }

    /// Of the paths to other hosts' first guests.
    fn sample_weights(&mut self, apps: &Apps<'_>) {
        let net = &apps.transport.net;
        let hosts = net.hosts.len() as u32;
        for (host, to) in (0..hosts).flat_map(|host| (0..hosts).map(move |to| (host, to))) {
            let mut states: Vec<_> = net.hosts[host as usize].edge.paths_to(&guest_address(to, 0)).collect();
            states.sort_by_key(|(label, _)| *label);
            let paths: Vec<u32> = states.iter().map(|(_, path)| path.weight).collect();
            if !paths.is_empty() {
                self.weights.push(Weights { at: net.now(), host, to, paths });
            }
        }
    }

    fn sample_flows(&mut self, apps: &Apps<'_>, first: bool) {
        let transport = &apps.transport;
        for connection in transport.connections.iter().filter(|c| c.live) {
            let edge = &transport.net.hosts[connection.hosts[CLIENT] as usize].edge;
            let virtual_window = || {
                let known = edge.congestion(&connection.key(CLIENT))?;
                Some(known.window.map_or(u32::MAX, |w| w.get() as u32))
            };
            for message in connection.messages.iter().filter(|m| m.spec.size.is_none()) {
                let bytes = transport.delivered_by(connection, SERVER).saturating_sub(message.begins);
                let before = self.delivered_before.insert(message.record, bytes).unwrap_or(0);
                if !first {
                    self.goodput.entry(message.record).or_default().push(bytes - before);
                    if let Some(window) = virtual_window() {
                        let cwnd = connection.ends[CLIENT].tx.cwnd().min(u64::from(u32::MAX)) as u32;
                        self.windows.entry(message.record).or_default().push((window, cwnd));
                    }
                }
            }
        }
        for sender in transport.datagrams.iter().filter(|sender| sender.live) {
            let bytes = apps.flows[sender.record as usize].delivered;
            let before = self.delivered_before.insert(sender.record, bytes).unwrap_or(0);
            if !first {
                self.goodput.entry(sender.record).or_default().push(bytes - before);
            }
        }
        // Flows that were stopped: what came after the last instant, then nothing until the end.
        for (&record, series) in &mut self.goodput {
            let flow = &apps.flows[record as usize];
            if flow.finish.is_some() {
                let before = self.delivered_before.insert(record, flow.delivered).unwrap_or(0);
                series.push(flow.delivered.saturating_sub(before));
            }
        }
    }
}
