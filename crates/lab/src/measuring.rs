//! The measured part of a lab run.

use super::clock::thread_cpu;
use super::driver::{Driver, Event};
use super::host::{Counters, Host};
use super::measurement::{Measure, Measurement, Planned, MAX_SAMPLES};
use host::outcome::{HostRecord, PortRecord};
use topology::LinkId;
use units::Time;

impl Driver {
    /// Measures from `begin` to `end`, times of the lab; what is past counts as now. [`Driver::take_measurement`] has it
    /// afterwards.
    pub fn plan_measurement(&mut self, begin: Time, end: Time, every: Time) {
        let (now, node) = (self.scheduler.now(), self.hosts.len() as u32);
        self.planned = Planned { every, done: None };
        self.scheduler.schedule(begin.max(now), node, Event::Measure { begin: true });
        self.scheduler.schedule(end.max(begin).max(now), node, Event::Measure { begin: false });
    }

    pub(super) fn measure_planned(&mut self, begin: bool) {
        if begin {
            self.begin_measurement(self.planned.every);
        } else {
            self.planned.done = Some(self.end_measurement());
        }
    }

    /// The planned measurement, once it is over.
    pub fn take_measurement(&mut self) -> Option<Measurement> {
        self.planned.done.take()
    }

    /// Fails or heals a link at a time of the lab.
    pub fn plan_link(&mut self, at: Time, link: LinkId, up: bool) {
        let (at, node) = (at.max(self.scheduler.now()), self.hosts.len() as u32);
        self.scheduler.schedule(at, node, Event::Link { link, up });
    }

    /// Queues, utilisation and lateness are measured from now on; series get a value every `every`, none if that is
    /// zero.
    pub fn begin_measurement(&mut self, every: Time) {
        let now = self.scheduler.now();
        self.fabric.begin_measurement(now);
        self.reset_lateness();
        let ports = self.fabric.n_ports();
        let generation = self.measure.generation.wrapping_add(1);
        self.measure = Measure { begun: now, every, generation, first: true, ..Measure::new(ports) };
        self.measure.cpu_before = thread_cpu();
        self.measure.hops_before = self.fabric.packet_hops();
        self.measure.events_before = self.scheduler.fired();
        self.measure.exhausted_before = self.pool_exhausted;
        self.measure.ports = (0..ports as u32).map(|p| self.fabric.stats(p)).collect();
        self.measure.notifications = (0..ports as u32).map(|p| self.fabric.notify_stats(p)).collect();
        self.measure.edges = self.hosts.iter().map(|h| h.edge.counters()).collect();
        self.measure.hosts = self.hosts.iter().map(|h| h.counters).collect();
        if every > Time::ZERO {
            self.sample(generation);
        }
    }

    pub(super) fn sample(&mut self, generation: u32) {
        if generation != self.measure.generation {
            return;
        }
        let now = self.scheduler.now();
        let m = &mut self.measure;
        for port in 0..self.fabric.n_ports() {
            let queue = self.fabric.queue_bytes(port as u32, now);
            let busy = self.fabric.busy(port as u32, now);
            if !m.first && m.queue[port].len() < MAX_SAMPLES {
                m.queue[port].push(queue.min(u64::from(u32::MAX)) as u32);
                let since = busy.saturating_sub(m.busy_before[port]).as_secs_f64();
                m.utilisation[port].push((since / m.every.as_secs_f64()).min(1.0) as f32);
            }
            m.busy_before[port] = busy;
        }
        m.first = false;
        let node = self.hosts.len() as u32;
        self.scheduler.schedule(now + m.every, node, Event::Sample { generation });
    }

    /// What was measured since it began; the series end. Counters of packets cover that time, too.
    pub fn end_measurement(&mut self) -> Measurement {
        let now = self.scheduler.now();
        let span = now.saturating_sub(self.measure.begun).as_secs_f64();
        let share = |t: f64| if span > 0.0 { t / span } else { 0.0 };
        let topology = self.fabric.topology().clone();
        let name = |n: u32| topology.nodes[n as usize].name.as_str();
        let mut m = std::mem::take(&mut self.measure);
        self.measure = Measure { generation: m.generation.wrapping_add(1), ..Measure::new(self.fabric.n_ports()) };
        let mut ports = Vec::with_capacity(self.fabric.n_ports());
        for port in 0..self.fabric.n_ports() {
            let (busy, byte_time) = (self.fabric.busy(port as u32, now), self.fabric.byte_time(port as u32, now));
            let stats = self.fabric.stats(port as u32);
            let (link, forward) = ((port / 2) as u32, port % 2 == 0);
            let l = &topology.links[link as usize];
            let (from, to) = if forward { (l.a, l.b) } else { (l.b, l.a) };
            let before = m.ports.get(port).copied().unwrap_or_default();
            let notified = m.notifications.get(port).copied().unwrap_or_default();
            ports.push(PortRecord {
                name: format!("{}-{}", name(from), name(to)),
                link,
                forward,
                tx_packets: stats.tx_packets - before.tx_packets,
                tx_bytes: stats.tx_bytes - before.tx_bytes,
                dropped_packets: stats.dropped_packets - before.dropped_packets,
                dropped_bytes: stats.dropped_bytes - before.dropped_bytes,
                marked_packets: stats.marked_packets - before.marked_packets,
                notifications: self.fabric.notify_stats(port as u32).since(notified),
                utilisation: share(busy.as_secs_f64()).min(1.0),
                queue_mean_bytes: share(byte_time as f64 / 1e12),
                queue_max_bytes: stats.queue_max,
                queue_series: m.queue.get_mut(port).map(std::mem::take).unwrap_or_default(),
                utilisation_series: m.utilisation.get_mut(port).map(std::mem::take).unwrap_or_default(),
            });
        }
        let host = |(h, host): (usize, &Host)| {
            let before = m.hosts.get(h).copied().unwrap_or_default();
            let edge_before = m.edges.get(h).copied().unwrap_or_default();
            let edge = host.edge.counters();
            HostRecord {
                rx_ring_drops: host.counters.rx_ring_drops - before.rx_ring_drops,
                rx_packets: host.counters.rx_packets - before.rx_packets,
                rx_segments: host.counters.rx_segments - before.rx_segments,
                rx_bytes: host.counters.rx_bytes - before.rx_bytes,
                congestion: edge.congestion.since(edge_before.congestion),
                hygenicc: edge.hygenicc.since(edge_before.hygenicc),
                fastlane: edge.fastlane.since(edge_before.fastlane),
                hidden: edge.hidden.since(edge_before.hidden),
                ..HostRecord::default()
            }
        };
        let hosts = self.hosts.iter().enumerate().map(host).collect();
        let refused = |hosts: &[Counters]| hosts.iter().map(|c| c.rx_refused).sum::<u64>();
        let counters: Vec<Counters> = self.hosts.iter().map(|h| h.counters).collect();
        let (lost, unroutable) = self.fabric.lost_packets();
        Measurement {
            ports,
            hosts,
            lost_packets: lost + unroutable,
            packet_hops: self.fabric.packet_hops() - m.hops_before,
            events: self.scheduler.fired() - m.events_before,
            peak_packets: self.fabric.packets.high_water(),
            lateness: self.lateness.clone(),
            rx_refused: refused(&counters) - refused(&m.hosts),
            frames_exhausted: self.pool_exhausted - m.exhausted_before,
            span: now.saturating_sub(m.begun),
            cpu: thread_cpu().saturating_sub(m.cpu_before),
        }
    }
}
