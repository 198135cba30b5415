//! The outcome of a run, from what its parts have counted.

use crate::apps::Apps;
use crate::experiment::Experiment;
use crate::network::{Host, Network};
use crate::outcome::{HostRecord, Outcome, PortRecord};
use crate::sampling::Sampling;
use units::Time;

/// Port and CPU figures of the measured part of a run.
#[derive(Debug)]
pub(crate) struct Measured {
    until: Time,
    ports: Vec<MeasuredPort>,
    /// Per host: transmitting and receiving core.
    cpu: Vec<(Time, Time)>,
}

#[derive(Debug)]
struct MeasuredPort {
    busy: Time,
    byte_time: u128,
    queue_max_bytes: u64,
}

impl Measured {
    /// The measured part ends now.
    pub(crate) fn until(until: Time, net: &mut Network<'_>) -> Measured {
        let ports = (0..net.fabric.n_ports() as u32).map(|port| {
            let (busy, byte_time) = (net.busy(port), net.byte_time(port));
            MeasuredPort { busy, byte_time, queue_max_bytes: net.stats(port).queue_max }
        });
        let ports = ports.collect();
        Measured { until, ports, cpu: net.hosts.iter().map(|h| (h.tx_cpu_busy, h.rx_cpu_busy)).collect() }
    }
}

/// What a run yields that lasted until `ended_at`.
pub(crate) fn outcome(apps: Apps<'_>, mut sampling: Sampling, measured: &Measured, ended_at: Time) -> Outcome {
    let steps = apps.steps(apps.transport.net.experiment.duration);
    let draws_arrivals = apps.draw_arrivals();
    let (probes, probes_lost) = apps.probes.answered(ended_at);
    let transport = apps.transport;
    let mut net = transport.net;
    let (discovered, discovery_probes) = net.discovered();
    Outcome {
        probes_lost,
        probes,
        flows: apps.flows,
        ports: ports(&mut net, &mut sampling, measured),
        hosts: net.hosts.iter().zip(&measured.cpu).map(|(host, &cpu)| host_record(host, cpu)).collect(),
        rtt_samples: transport.notes.rtt_samples,
        sample_every: net.experiment.record.sample_every,
        steps,
        draws_arrivals,
        goodput_series: sampling.goodput.into_iter().collect(),
        window_series: sampling.windows.into_iter().collect(),
        flowcell_disorder: transport.notes.disorder.into_counts(),
        segment_sizes: transport.notes.segment_sizes,
        limiter_delays: std::mem::take(&mut net.limiters.delays),
        limiter_backlogs: sampling.limiter_backlogs,
        limiter_backlog_max: net.limiters.backlog_max,
        server_delays: net.server_delays.clone(),
        controls_again: transport.notes.controls_again,
        quenches: net.fabric.quenches_sent(),
        captured: net.captured(),
        weights: sampling.weights,
        discovered,
        discovery_probes,
        peak_packets: net.peak_packets(),
        peak_connections: transport.connections.len(),
        packet_hops: net.packet_hops(),
        events: net.events(),
        lost_packets: net.lost_packets(),
        measured_until: measured.until,
        ended_at,
        windows: net.elsewhere.map(|there| there.windows).unwrap_or_default(),
    }
}

fn ports(net: &mut Network<'_>, sampling: &mut Sampling, measured: &Measured) -> Vec<PortRecord> {
    let experiment: &Experiment = net.experiment;
    let span = measured.until.saturating_sub(experiment.warmup).as_secs_f64();
    let share = |t: f64| if span > 0.0 { t / span } else { 0.0 };
    let topology = &experiment.topology;
    let name = |n: u32| topology.nodes[n as usize].name.as_str();
    let mut ports = Vec::with_capacity(net.fabric.n_ports());
    for port in 0..net.fabric.n_ports() {
        let (link, forward) = ((port / 2) as u32, port % 2 == 0);
        let l = &topology.links[link as usize];
        let (from, to) = if forward { (l.a, l.b) } else { (l.b, l.a) };
        let stats = net.stats(port as u32);
        let within = &measured.ports[port];
        ports.push(PortRecord {
            name: format!("{}-{}", name(from), name(to)),
            link,
            forward,
            tx_packets: stats.tx_packets,
            tx_bytes: stats.tx_bytes,
            dropped_packets: stats.dropped_packets,
            dropped_bytes: stats.dropped_bytes,
            marked_packets: stats.marked_packets,
            notifications: net.notify_stats(port as u32),
            utilisation: share(within.busy.as_secs_f64()).min(1.0),
            queue_mean_bytes: share(within.byte_time as f64 / 1e12),
            queue_max_bytes: within.queue_max_bytes,
            queue_series: std::mem::take(&mut sampling.queues[port]),
            utilisation_series: std::mem::take(&mut sampling.utilisation[port]),
        });
    }
    ports
}

fn host_record(host: &Host, (tx_cpu_busy, rx_cpu_busy): (Time, Time)) -> HostRecord {
    let shaper = host.shaper.as_ref();
    let limiter_drops = shaper.map_or(0, |s| (0..s.classes()).map(|class| s.dropped(class)).sum());
    let marked: u64 = shaper.map_or(0, |s| (0..s.classes()).map(|class| s.marked(class)).sum());
    let counters = host.edge.counters();
    let mut limiter = counters.limiter;
    limiter.segments_marked += marked;
    HostRecord {
        tx_cpu_busy,
        rx_cpu_busy,
        rx_ring_drops: host.rx_ring_drops,
        rx_packets: host.rx_packets,
        rx_segments: host.rx_segments,
        rx_bytes: host.rx_bytes,
        lookups: counters.egress_segments + counters.ingress_segments,
        flows_begun: counters.flows_begun,
        flows_expired: counters.flows_expired,
        congestion: counters.congestion,
        limiter,
        limiter_drops,
        hygenicc: counters.hygenicc,
        fastlane: counters.fastlane,
        hidden: counters.hidden,
    }
}
