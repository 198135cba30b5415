//! Records of a run beyond its flows: probes, series, disorder; and the outcome at the end.

use crate::connection::{flow_hash, wire_len, EndId, CLIENT, SERVER};
use crate::experiment::{address, Experiment};
use crate::gro::RxSegment;
use crate::mptcp::delivered;
use crate::outcome::{HostRecord, Outcome, PortRecord};
use crate::world::{Event, World};
use fabric::{Packet, PortStats};
use std::collections::BTreeMap;
use units::Time;
use wire::proto;

/// `Packet::flow` of an RTT probe on its way out; one more on its way back.
pub(crate) const PROBE: u32 = u32::MAX - 1;
const ECHO: u32 = u32::MAX;
const PROBE_PAYLOAD: u32 = 64;

#[derive(Debug, Default)]
pub(crate) struct Sampling {
    probes: Vec<(Time, u32, Option<Time>)>,
    rtt_samples: Vec<(Time, u32, Time)>,
    queue_series: Vec<Vec<u32>>,
    utilisation_series: Vec<Vec<f32>>,
    busy_before: Vec<Time>,
    goodput_series: BTreeMap<u32, Vec<u64>>,
    window_series: BTreeMap<u32, Vec<(u32, u32)>>,
    /// The first sampling instant has passed. It only sets the baseline of the series.
    sampling: bool,
    /// Bytes of each unbounded flow at the last sampling instant.
    delivered_before: BTreeMap<u32, u64>,
    disorder: BTreeMap<u32, Disorder>,
    /// Of connections that are closed.
    disorder_counts: Vec<u32>,
    segment_sizes: Vec<u32>,
    /// How long segments waited in limiters, in the measured part.
    limiter_delays: Vec<Time>,
    /// At each sampling instant: bytes that wait in each class of each limiter.
    limiter_backlogs: Vec<u32>,
    limiter_backlog_max: u64,
}

/// Port and CPU figures of the measured part of a run.
#[derive(Debug)]
pub(crate) struct Measured {
    until: Time,
    /// Per port: time spent sending, and statistics of the queue.
    ports: Vec<(Time, PortStats)>,
    /// Per host: transmitting and receiving core.
    cpu: Vec<(Time, Time)>,
}

/// Counts, for one connection's data as TCP sees it, the segments of other flowcells that came between the first and
/// the last segment of each flowcell (Presto Fig. 5a).
#[derive(Debug, Default)]
struct Disorder {
    seen: u32,
    /// Flowcell -> index of its first and last segment, and how many it had.
    cells: BTreeMap<u32, (u32, u32, u32)>,
}

impl Disorder {
    fn note(&mut self, cell: u32) {
        let entry = self.cells.entry(cell).or_insert((self.seen, self.seen, 0));
        entry.1 = self.seen;
        entry.2 += 1;
        self.seen += 1;
    }
    fn counts(&self) -> impl Iterator<Item = u32> + '_ {
        self.cells.values().map(|(first, last, own)| last - first + 1 - own)
    }
}

impl Sampling {
    pub(crate) fn new(experiment: &Experiment) -> Sampling {
        let ports = 2 * experiment.topology.links.len();
        Sampling {
            queue_series: vec![Vec::new(); ports],
            utilisation_series: vec![Vec::new(); ports],
            busy_before: vec![Time::ZERO; ports],
            ..Sampling::default()
        }
    }

    pub(crate) fn note_delay(&mut self, delay: Time) {
        self.limiter_delays.push(delay);
    }

    pub(crate) fn note_backlog(&mut self, bytes: u64) {
        self.limiter_backlog_max = self.limiter_backlog_max.max(bytes);
    }

    /// The end's number will name another connection, whose flowcells count from zero again.
    pub(crate) fn forget(&mut self, end: EndId) {
        if let Some(disorder) = self.disorder.remove(&end.0) {
            self.disorder_counts.extend(disorder.counts());
        }
    }
}

impl World<'_> {
    pub(crate) fn note_segment(&mut self, id: EndId, segment: &RxSegment) {
        let record = &self.experiment.record;
        let h = &segment.packet.headers;
        if record.flowcells && self.measuring && id.end() == SERVER && h.payload > 0 {
            self.sampling.segment_sizes.push(h.payload);
            self.sampling.disorder.entry(id.0).or_default().note(h.cell);
        }
        if record.rtt_samples && self.measuring && id.end() == CLIENT {
            let connection = &mut self.connections[id.connection()];
            if let Some(sample) = connection.ends[CLIENT].tx.take_rtt_sample() {
                let first = self.first_of(id.connection());
                let flow = self.connections[first].messages.front().map_or(u32::MAX, |m| m.record);
                self.sampling.rtt_samples.push((self.scheduler.now(), flow, sample));
            }
        }
    }

    /// One probe from every host, to the receiver of its first unbounded flow if it has one.
    pub(crate) fn probe_event(&mut self) {
        let now = self.scheduler.now();
        let n = self.hosts.len() as u32;
        let mut partner: Vec<u32> = (0..n).map(|h| (h + n / 2) % n).collect();
        for flow in self.flows.iter().rev().filter(|f| f.size.is_none()) {
            partner[flow.src as usize] = flow.dst;
        }
        for src in 0..n {
            if partner[src as usize] == src {
                continue;
            }
            let number = self.sampling.probes.len() as u32;
            self.sampling.probes.push((now, src, None));
            self.transmit(probe(src, partner[src as usize], number, PROBE));
        }
        let next = now + self.experiment.record.probe_every;
        if next <= self.experiment.duration {
            let control = self.control_node();
            self.scheduler.schedule(next, control, Event::Probe);
        }
    }

    pub(crate) fn probe_arrived(&mut self, host: u32, segment: &RxSegment) {
        let number = segment.packet.headers.seq;
        if segment.packet.flow == PROBE {
            self.transmit(probe(host, segment.packet.src, number, ECHO));
        } else if let Some(sent) = self.sampling.probes.get_mut(number as usize) {
            sent.2 = Some(self.scheduler.now() - sent.0);
        }
    }

    pub(crate) fn sample_event(&mut self) {
        let now = self.scheduler.now();
        let every = self.experiment.record.sample_every;
        let first = !std::mem::replace(&mut self.sampling.sampling, true);
        for port in 0..self.fabric.n_ports() {
            let queue = self.fabric.queue_bytes(port as u32, now);
            let busy = self.fabric.busy(port as u32);
            let s = &mut self.sampling;
            if first {
                s.busy_before[port] = busy;
                continue;
            }
            s.queue_series[port].push(queue.min(u64::from(u32::MAX)) as u32);
            let since = busy.saturating_sub(s.busy_before[port]);
            s.utilisation_series[port].push((since.as_secs_f64() / every.as_secs_f64()).min(1.0) as f32);
            s.busy_before[port] = busy;
        }
        for shaper in self.hosts.iter().filter_map(|h| h.shaper.as_ref()).filter(|_| !first) {
            let backlogs = (0..shaper.classes()).map(|class| shaper.backlog(class).min(u64::from(u32::MAX)) as u32);
            self.sampling.limiter_backlogs.extend(backlogs);
        }
        for connection in self.connections.iter().filter(|c| c.live) {
            let edge = &self.hosts[connection.hosts[CLIENT] as usize].edge;
            let virtual_window = || {
                let known = edge.congestion(&connection.key(CLIENT))?;
                Some(known.window.map_or(u32::MAX, |w| w.get() as u32))
            };
            for message in connection.messages.iter().filter(|m| m.spec.size.is_none()) {
                let bytes = delivered(connection, &self.groups, SERVER).saturating_sub(message.begins);
                let before = self.sampling.delivered_before.insert(message.record, bytes).unwrap_or(0);
                if !first {
                    self.sampling.goodput_series.entry(message.record).or_default().push(bytes - before);
                    if let Some(window) = virtual_window() {
                        let cwnd = connection.ends[CLIENT].tx.cwnd().min(u64::from(u32::MAX)) as u32;
                        self.sampling.window_series.entry(message.record).or_default().push((window, cwnd));
                    }
                }
            }
        }
        // Flows that were stopped: what came after the last instant, then nothing until the end.
        for (&record, series) in &mut self.sampling.goodput_series {
            let flow = &self.flows[record as usize];
            if flow.finish.is_some() {
                let before = self.sampling.delivered_before.insert(record, flow.delivered).unwrap_or(0);
                series.push(flow.delivered.saturating_sub(before));
            }
        }
        let next = now + every;
        if next <= self.experiment.duration {
            let control = self.control_node();
            self.scheduler.schedule(next, control, Event::Sample);
        }
    }

    pub(crate) fn measured_until(&mut self, now: Time) -> Measured {
        let ports = (0..self.fabric.n_ports() as u32).map(|port| {
            // Starts transmissions that were due.
            self.fabric.queue_bytes(port, now);
            (self.fabric.busy(port), self.fabric.stats(port))
        });
        let ports = ports.collect();
        Measured { until: now, ports, cpu: self.hosts.iter().map(|h| (h.tx_cpu_busy, h.rx_cpu_busy)).collect() }
    }

    pub(crate) fn finish(mut self, until: Time) -> Outcome {
        self.mark_delivered();
        let ended_at = self.scheduler.now().min(until);
        let measured = match self.measured.take() {
            Some(measured) => measured,
            None => self.measured_until(ended_at),
        };
        let span = measured.until.saturating_sub(self.experiment.warmup).as_secs_f64();
        let share = |t: f64| if span > 0.0 { t / span } else { 0.0 };
        let topology = &self.experiment.topology;
        let name = |n: u32| topology.nodes[n as usize].name.as_str();
        let mut ports = Vec::with_capacity(self.fabric.n_ports());
        for port in 0..self.fabric.n_ports() {
            let (link, forward) = ((port / 2) as u32, port % 2 == 0);
            let l = &topology.links[link as usize];
            let (from, to) = if forward { (l.a, l.b) } else { (l.b, l.a) };
            let stats = self.fabric.stats(port as u32);
            let (busy, within) = &measured.ports[port];
            ports.push(PortRecord {
                name: format!("{}-{}", name(from), name(to)),
                link,
                forward,
                tx_packets: stats.tx_packets,
                tx_bytes: stats.tx_bytes,
                dropped_packets: stats.dropped_packets,
                dropped_bytes: stats.dropped_bytes,
                marked_packets: stats.marked_packets,
                utilisation: share(busy.as_secs_f64()).min(1.0),
                queue_mean_bytes: share(within.byte_time as f64 / 1e12),
                queue_max_bytes: within.queue_max,
                queue_series: std::mem::take(&mut self.sampling.queue_series[port]),
                utilisation_series: std::mem::take(&mut self.sampling.utilisation_series[port]),
            });
        }
        let hosts = self
            .hosts
            .iter()
            .zip(&measured.cpu)
            .map(|(h, &(tx_cpu_busy, rx_cpu_busy))| HostRecord {
                tx_cpu_busy,
                rx_cpu_busy,
                rx_ring_drops: h.rx_ring_drops,
                rx_packets: h.rx_packets,
                rx_segments: h.rx_segments,
                rx_bytes: h.rx_bytes,
                congestion: h.edge.counters().congestion,
                limiter: h.edge.counters().limiter,
                limiter_drops: h.shaper.as_ref().map_or(0, |s| (0..s.classes()).map(|class| s.dropped(class)).sum()),
            })
            .collect();
        let (lost_on_wires, unroutable) = self.fabric.lost_packets();
        let until = self.experiment.duration;
        let steps = self.sources.iter().map(|source| source.steps(until)).collect();
        let s = self.sampling;
        let probes: Vec<_> = s.probes.iter().filter_map(|&(at, host, rtt)| Some((at, host, rtt?))).collect();
        Outcome {
            probes_lost: (s.probes.len() - probes.len()) as u64,
            probes,
            flows: self.flows,
            ports,
            hosts,
            rtt_samples: s.rtt_samples,
            sample_every: self.experiment.record.sample_every,
            steps,
            goodput_series: s.goodput_series.into_iter().collect(),
            window_series: s.window_series.into_iter().collect(),
            flowcell_disorder: s.disorder.values().flat_map(Disorder::counts).chain(s.disorder_counts).collect(),
            segment_sizes: s.segment_sizes,
            limiter_delays: s.limiter_delays,
            limiter_backlogs: s.limiter_backlogs,
            limiter_backlog_max: s.limiter_backlog_max,
            captured: self.fabric.tap().map(|t| t.packets.clone()).unwrap_or_default(),
            peak_packets: self.fabric.packets.high_water(),
            peak_connections: self.connections.len(),
            packet_hops: self.fabric.packet_hops(),
            events: self.scheduler.fired(),
            lost_packets: lost_on_wires + unroutable,
            measured_until: measured.until,
            ended_at,
        }
    }
}

/// A UDP datagram of 64 bytes; `number` travels where TCP has its sequence number.
fn probe(src: u32, dst: u32, number: u32, flow: u32) -> Packet {
    let headers = wire::Packet {
        saddr: address(src),
        daddr: address(dst),
        seq: number,
        payload: PROBE_PAYLOAD,
        sport: 7,
        dport: 7,
        proto: proto::UDP,
        family: 4,
        ip_header_len: 20,
        l4_header_len: 8,
        ..wire::Packet::default()
    };
    let wire_len = wire_len(8 + PROBE_PAYLOAD);
    Packet { src, dst, hash: flow_hash(&headers), flow, wire_len, headers, ..Packet::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disorder_counts_strangers_between_a_cells_first_and_last_segment() {
        let counts = |cells: &[u32]| {
            let mut d = Disorder::default();
            cells.iter().for_each(|&c| d.note(c));
            d.counts().collect::<Vec<_>>()
        };
        assert_eq!(counts(&[0, 0, 1, 1]), [0, 0]);
        assert_eq!(counts(&[0, 1, 0, 1, 1]), [1, 1]);
        assert_eq!(counts(&[0, 1, 1, 1, 0]), [3, 0]);
    }
}
