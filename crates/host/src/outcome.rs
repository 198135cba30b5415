//! The outcome of a run: plain records, in order of id. `measure` condenses them, `selvedge` writes them.

use units::Time;

/// One flow (a message on a connection), finished or not.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowRecord {
    /// In order of start.
    pub id: u32,
    /// Index of the workload that made it.
    pub class: u16,
    pub src: u32,
    pub dst: u32,
    /// Bytes to carry; `None` for a flow that runs until the end.
    pub size: Option<u64>,
    pub start: Time,
    /// When the receiver had the last byte in order, or, for request and reply, when the sender had the reply.
    pub finish: Option<Time>,
    /// Bytes the receiver had in order when the run ended.
    pub delivered: u64,
    /// Bytes that reached the receiver, in order or not, in the measured part: after the warm-up and before the drain.
    pub delivered_measured: u64,
    /// Least possible completion time on an idle network, see [`crate::measure::ideal_fct`].
    pub ideal: Option<Time>,
    pub retransmitted_segments: u32,
    pub fast_retransmits: u32,
    pub timeouts: u32,
    /// Segments that reached the receiving TCP out of order.
    pub out_of_order: u32,
    pub segments_received: u32,
    /// Path labels that its packets used.
    pub paths_used: u32,
    /// Of the connection that it opened. `None`: it opened none, or nobody has looked.
    pub handshake: Option<Handshake>,
    /// The number of the request that it answers with others, of its workload: the round of an incast.
    pub request: Option<u32>,
}

impl FlowRecord {
    /// One that has just begun and has no end, on the first workload, from host 0 to 1: for tests to change.
    #[cfg(test)]
    pub(crate) fn endless() -> FlowRecord {
        FlowRecord {
            id: 0,
            class: 0,
            src: 0,
            dst: 1,
            size: None,
            start: Time::ZERO,
            finish: None,
            delivered: 0,
            delivered_measured: 0,
            ideal: None,
            retransmitted_segments: 0,
            fast_retransmits: 0,
            timeouts: 0,
            out_of_order: 0,
            segments_received: 0,
            paths_used: 0,
            handshake: None,
            request: None,
        }
    }
}

/// How a connection began, as its client saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Handshake {
    pub syns_sent: u32,
    pub done: bool,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct PortRecord {
    pub name: String,
    pub link: u32,
    /// From the link's `a` end to its `b` end.
    pub forward: bool,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub dropped_packets: u64,
    pub dropped_bytes: u64,
    pub marked_packets: u64,
    pub notifications: fabric::NotifyStats,
    /// Share of the measured part in which the port was sending, 0 to 1.
    pub utilisation: f64,
    /// Time-weighted mean of the queue in the measured part, bytes.
    pub queue_mean_bytes: f64,
    pub queue_max_bytes: u64,
    /// Queue length at each sampling instant, bytes, if sampling is on.
    pub queue_series: Vec<u32>,
    pub utilisation_series: Vec<f32>,
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct HostRecord {
    pub tx_cpu_busy: Time,
    pub rx_cpu_busy: Time,
    pub rx_ring_drops: u64,
    pub rx_packets: u64,
    /// Segments handed to TCP, and their bytes.
    pub rx_segments: u64,
    pub rx_bytes: u64,
    /// Segments whose connection its edge looked up, connections that it remembered, and of these those that it forgot.
    pub lookups: u64,
    pub flows_begun: u64,
    pub flows_expired: u64,
    /// What the host's edge has done of virtual congestion control.
    pub congestion: edge::CongestionCounters,
    /// What its edge has done about the backlog of its limiter, and segments for which that had no room.
    pub limiter: edge::limiter::Counters,
    pub limiter_drops: u64,
    /// What its edge has done about guests' shares.
    pub hygenicc: edge::hygenicc::Counters,
    /// What its edge has done about notifications.
    pub fastlane: edge::fastlane::Counters,
    /// What its edge has hidden.
    pub hidden: edge::hidden::Counters,
}

/// The paths from one host to another, as discovery had them from one moment on.
#[derive(Clone, Debug, PartialEq)]
pub struct Discovered {
    pub at: Time,
    pub host: u32,
    pub to: u32,
    /// By index, the source port and the ports by which switches get its packets, first to last.
    pub paths: Vec<(u16, Vec<fabric::PortId>)>,
}

/// How the edge of one host shares flowlets for another among the paths there, at a sampling instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights {
    pub at: Time,
    pub host: u32,
    pub to: u32,
    /// By place in the schedule, 1/65536; zero before the first flowlet.
    pub paths: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub flows: Vec<FlowRecord>,
    pub ports: Vec<PortRecord>,
    pub hosts: Vec<HostRecord>,
    /// Probe RTTs in order of sending: (sent at, host, round-trip time).
    pub probes: Vec<(Time, u32, Time)>,
    pub probes_lost: u64,
    /// RTT samples of senders: (at, flow id, sample).
    pub rtt_samples: Vec<(Time, u32, Time)>,
    /// Length of a sampling interval; the first begins with the measured part. Zero if no series were kept.
    pub sample_every: Time,
    /// Per workload, when flows join and leave, see [`crate::workload::Source::steps`].
    pub steps: Vec<Vec<Time>>,
    /// Per workload: flows arrive at random, so that a run may have none ([`crate::workload::Source::draws_arrivals`]).
    pub draws_arrivals: Vec<bool>,
    /// Goodput of each flow of unbounded size per sampling interval from its start to the run's end, bytes:
    /// `[flow][interval]`.
    pub goodput_series: Vec<(u32, Vec<u64>)>,
    /// Under virtual congestion control, at the same instants, the window that the edge computes for the flow's sender
    /// (`u32::MAX`: any) and the guest's own congestion window, bytes.
    pub window_series: Vec<(u32, Vec<(u32, u32)>)>,
    /// Out-of-order segments per flowcell as TCP saw them, and sizes in bytes of the segments pushed to TCP.
    pub flowcell_disorder: Vec<u32>,
    pub segment_sizes: Vec<u32>,
    /// How long segments waited in limiters in the measured part.
    pub limiter_delays: Vec<Time>,
    /// Bytes that wait in each class of each limiter, at each sampling instant, and the most over the whole run.
    pub limiter_backlogs: Vec<u32>,
    pub limiter_backlog_max: u64,
    /// How long hosts took for received packets in the measured part.
    pub server_delays: crate::delays::Delays,
    /// SYNs and pure ACKs that guests sent again at once, because a switch told of their drop.
    pub controls_again: u64,
    /// ICMP Source Quench messages that switches made.
    pub quenches: u64,
    pub captured: Vec<fabric::Captured>,
    /// In order of time, if they were kept.
    pub weights: Vec<Weights>,
    /// What discovery found, host by host, each in order of time.
    pub discovered: Vec<Discovered>,
    /// Probes that discovery sent.
    pub discovery_probes: u64,
    /// The most packets and connections that existed at once.
    pub peak_packets: usize,
    pub peak_connections: usize,
    /// Packet traversals of one link, the engine's work.
    pub packet_hops: u64,
    pub events: u64,
    /// Packets lost on wires or for want of a route, over the whole run; ports and hosts count their own drops.
    pub lost_packets: u64,
    /// End of the measured part, which begins with the end of the warm-up: the drain is not in it.
    pub measured_until: Time,
    pub ended_at: Time,
    /// How the run was spread over threads. Alone of all fields it depends on their number, with [`peak_packets`](Self::peak_packets).
    pub windows: Windows,
}

/// What the windows of a run held: enough to tell how far more threads would help.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// Parts, that of the hosts included; zero: the run had one thread.
    pub parts: usize,
    /// Threads that the fabric was cut for.
    pub threads: usize,
    pub lookahead: Time,
    pub windows: u64,
    /// Events of the part that has all hosts, and of the others.
    pub hosts_part_events: u64,
    pub other_events: u64,
    /// Events of the busiest of the others in each window, summed.
    pub busiest_other_events: u64,
    /// Events of the busiest part in each window, that of the hosts included, summed: the critical path, however many threads there are.
    pub critical_events: u64,
    /// Events of the busiest thread in each window, summed, if threads take parts by their events in that window, the most first.
    pub busiest_thread_events: u64,
    /// Why the run had one thread although it was given more.
    pub refused: Option<String>,
}
