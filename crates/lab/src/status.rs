//! What can be seen of a running lab.

use super::driver::{head, Driver};
use super::frame::payload_start;
use super::host::Counters;
use super::limit::Queues;
use super::network::address_text;
use crate::lateness::Verdict;
use fabric::Packet;
use port::Pool;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::mpsc::{SyncSender, TrySendError};
use units::{BitRate, Time};
use wire::FlowKey;

/// One direction of a link.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkStatus {
    /// By which `fail`, `set` and others know the link; both directions have one.
    pub link: String,
    /// From and to, such as `leaf1-spine2`.
    pub port: String,
    pub up: bool,
    pub rate: BitRate,
    pub delay: Time,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub dropped_packets: u64,
    pub marked_packets: u64,
    /// Octets that wait or are being sent, now and at most.
    pub queue_bytes: u64,
    pub queue_max_bytes: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostStatus {
    pub name: String,
    pub address: String,
    /// Connections that the host's edge remembers.
    pub edge_flows: usize,
    /// Segments held by the edge to be put in order, since the lab began.
    pub segments_held: u64,
    pub gaps_filled: u64,
    pub hold_timeouts: u64,
    /// Bytes that wait in the host's rate limiter, and segments for which it had no room.
    pub limiter_backlog_bytes: u64,
    pub limiter_drops: u64,
    /// Bytes that went past its queues (`sparse_first`).
    pub limiter_first_bytes: u64,
    /// What its law did: segments marked, ACKs that got ECE, windows cut.
    pub limiter_acts: u64,
    #[serde(flatten)]
    pub counters: Counters,
}

/// One transport flow in one direction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowStatus {
    pub flow: String,
    pub bytes: u64,
    pub segments: u64,
    /// Path labels used since the lab began; 0 is "hashed".
    pub labels: Vec<u16>,
    /// Last seen, time since the lab began.
    pub seen: Time,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Since the lab began.
    pub time: Time,
    pub links: Vec<LinkStatus>,
    pub hosts: Vec<HostStatus>,
    /// Those with most bytes, at most 100.
    pub flows: Vec<FlowStatus>,
    pub verdict: Verdict,
    pub valid: bool,
    /// Packets in the model now, packet traversals of one link so far.
    pub packets: usize,
    pub packet_hops: u64,
    /// Buffers for frames: free now, in all, and how often there was none.
    pub frames_free: usize,
    pub frames: usize,
    pub frames_exhausted: u64,
}

/// Flows remembered for display.
const MAX_FLOWS: usize = 4096;
const SHOWN_FLOWS: usize = 100;

/// What each flow has sent.
#[derive(Debug, Default)]
pub(super) struct Flows {
    of: HashMap<FlowKey, Flow>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    bytes: u64,
    segments: u64,
    /// One bit each; labels above 63 share the last.
    labels: u64,
    seen: Time,
}

impl Flows {
    pub(super) fn note(&mut self, now: Time, segment: &Packet) {
        let hidden = segment.options.hidden.as_ref().and_then(wire::hidden::Hidden::read);
        let key = hidden.map_or(segment.headers.flow_key(), |hidden| hidden.flow_key());
        if self.of.len() >= MAX_FLOWS && !self.of.contains_key(&key) {
            // Rare: forget those that have been quiet for longest, half of them.
            let mut seen: Vec<Time> = self.of.values().map(|f| f.seen).collect();
            seen.sort_unstable();
            let median = seen[seen.len() / 2];
            self.of.retain(|_, f| f.seen > median);
        }
        let flow = self.of.entry(key).or_default();
        flow.bytes += u64::from(match segment.headers.l4_header_len {
            0 => segment.wire_len,
            _ => segment.headers.payload,
        });
        flow.segments += 1;
        flow.labels |= 1 << host::ports::number(segment.label).min(63);
        flow.seen = now;
    }

    /// How many labels each flow has used, by key.
    pub(super) fn paths(&self, key: &FlowKey) -> u32 {
        self.of.get(key).map_or(0, |f| f.labels.count_ones())
    }

    fn top(&self) -> Vec<FlowStatus> {
        let mut flows: Vec<_> = self.of.iter().collect();
        flows.sort_by_key(|(key, flow)| (std::cmp::Reverse(flow.bytes), **key));
        flows
            .into_iter()
            .take(SHOWN_FLOWS)
            .map(|(key, flow)| FlowStatus {
                flow: describe(key),
                bytes: flow.bytes,
                segments: flow.segments,
                labels: (0..64).filter(|bit| flow.labels >> bit & 1 == 1).collect(),
                seen: flow.seen,
            })
            .collect()
    }
}

fn describe(key: &FlowKey) -> String {
    let proto = match key.proto {
        wire::proto::TCP => "tcp".to_owned(),
        wire::proto::UDP => "udp".to_owned(),
        1 => "icmp".to_owned(),
        58 => "icmpv6".to_owned(),
        other => format!("ip{other}"),
    };
    let (from, to) = (address_text(&key.saddr), address_text(&key.daddr));
    match (key.sport, key.dport) {
        (0, 0) => format!("{proto} {from} > {to}"),
        (sport, dport) => format!("{proto} {from}:{sport} > {to}:{dport}"),
    }
}

/// A packet as it crossed a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedFrame {
    /// When its last bit reached the far end, since the lab began.
    pub at: Time,
    /// Its full length in bytes; `bytes` may be less.
    pub len: u32,
    pub bytes: Vec<u8>,
}

/// Hands captured packets to another thread, as long as that takes them.
pub(super) struct Capture {
    to: SyncSender<CapturedFrame>,
    /// Bytes kept of each.
    snap: usize,
    left: u64,
}

impl Capture {
    /// False once nothing more is wanted.
    pub(super) fn keep(&mut self, at: Time, packet: &Packet, pool: &Pool) -> bool {
        if self.left == 0 {
            return false;
        }
        let frame = pool.frame(packet.slot);
        let Some(head) = head(packet, false, pool) else { return true };
        let mut bytes = head.bytes;
        let start = payload_start(frame, &packet.headers).unwrap_or(bytes.len());
        let whole = packet.headers.l4_header_len == 0;
        let payload = match whole {
            true => &frame[bytes.len().min(frame.len())..],
            false => {
                let from = (start + packet.flow as usize).min(frame.len());
                &frame[from..(from + packet.headers.payload as usize).min(frame.len())]
            }
        };
        let len = (bytes.len() + payload.len()) as u32;
        bytes.extend_from_slice(&payload[..payload.len().min(self.snap.saturating_sub(bytes.len()))]);
        bytes.truncate(self.snap);
        self.left -= 1;
        // A reader that does not keep up loses packets; one that is gone ends the capture.
        !matches!(self.to.try_send(CapturedFrame { at, len, bytes }), Err(TrySendError::Disconnected(_)))
            && self.left > 0
    }
}

impl Driver {
    /// Since the lab began, or since the last [`Driver::reset_lateness`].
    pub fn verdict(&self, rtt: Time) -> Verdict {
        self.lateness.verdict(rtt)
    }
    pub fn reset_lateness(&mut self) {
        self.lateness = super::Lateness::default();
    }

    /// `rtt`: the round trip that lateness is judged by.
    pub fn status(&mut self, rtt: Time) -> Status {
        let now = self.scheduler.now();
        let failed = self.fabric.failed().to_vec();
        let topology = self.fabric.topology().clone();
        let name = |node: u32| topology.nodes[node as usize].name.as_str();
        let mut links = Vec::with_capacity(self.fabric.n_ports());
        for port in 0..self.fabric.n_ports() as u32 {
            let link = port / 2;
            let l = &topology.links[link as usize];
            let (from, to) = if port % 2 == 0 { (l.a, l.b) } else { (l.b, l.a) };
            let queue_bytes = self.fabric.queue_bytes(port, now);
            let stats = self.fabric.stats(port);
            let (rate, delay) = self.fabric.wire(link);
            links.push(LinkStatus {
                link: topology.link_name(link),
                port: format!("{}-{}", name(from), name(to)),
                up: !failed.contains(&link),
                rate,
                delay,
                tx_packets: stats.tx_packets,
                tx_bytes: stats.tx_bytes,
                dropped_packets: stats.dropped_packets,
                marked_packets: stats.marked_packets,
                queue_bytes,
                queue_max_bytes: stats.queue_max,
            });
        }
        let hosts = self.hosts.iter().enumerate().map(|(h, host)| {
            let edge = host.edge.counters();
            HostStatus {
                name: name(h as u32).to_owned(),
                address: super::address(h as u32).to_string(),
                edge_flows: host.edge.flow_count(),
                segments_held: edge.reorder.segments_held,
                gaps_filled: edge.reorder.gaps_filled,
                hold_timeouts: edge.reorder.timeouts,
                limiter_backlog_bytes: host.queues.as_ref().map_or(0, Queues::backlog),
                limiter_drops: host.queues.as_ref().map_or(0, |queues| queues.dropped),
                limiter_first_bytes: host.queues.as_ref().map_or(0, Queues::first_bytes),
                limiter_acts: edge.limiter.segments_marked + edge.limiter.acks_marked + edge.limiter.windows_cut,
                counters: host.counters,
            }
        });
        let verdict = self.lateness.verdict(rtt);
        Status {
            time: now,
            links,
            hosts: hosts.collect(),
            flows: self.flows.top(),
            valid: verdict.is_valid(),
            verdict,
            packets: self.fabric.packets.live(),
            packet_hops: self.fabric.packet_hops(),
            frames_free: self.pool.available(),
            frames: self.pool.capacity(),
            frames_exhausted: self.pool_exhausted,
        }
    }

    /// Fails or heals a link now; forwarding tables follow after their delay.
    pub fn set_link(&mut self, link: topology::LinkId, up: bool) {
        self.fabric_event(fabric::Event::Link { link, up });
    }

    /// Gives a link another rate, another delay, or both, from the next packet on. What it has now. A host's pace is not
    /// changed; [`Lab::set_wire`](super::Lab::set_wire) does that, too.
    pub fn set_wire(&mut self, link: topology::LinkId, rate: Option<BitRate>, delay: Option<Time>) -> (BitRate, Time) {
        let (rate_now, delay_now) = self.fabric.wire(link);
        let now = self.scheduler.now();
        self.fabric.set_wire(link, rate.unwrap_or(rate_now), delay.unwrap_or(delay_now), now);
        self.fabric.wire(link)
    }

    /// Sends at most `packets` packets that leave through `port` from now on to `to`, `snap` bytes of each. It replaces a
    /// capture that is running.
    pub fn capture(&mut self, port: fabric::PortId, snap: usize, packets: u64, to: SyncSender<CapturedFrame>) {
        self.capture = Some(Capture { to, snap, left: packets });
        self.fabric.set_tap(Some(fabric::Tap { port, limit: usize::MAX, packets: Vec::new() }));
    }

    /// Path labels that a flow has used in this direction.
    pub fn paths_used(&self, key: &FlowKey) -> u32 {
        self.flows.paths(key)
    }

    pub fn now(&self) -> Time {
        self.scheduler.now()
    }
    /// When the lab began, on the machine's real-time clock: since 1970, as that is set now.
    pub fn begun_real_ns(&self) -> u64 {
        self.clock.begun_real_ns()
    }
    /// When the lab began, on the machine's monotonic clock.
    pub fn begun(&self) -> Time {
        self.clock.begun()
    }
    pub fn stop(&mut self) {
        self.stopping = true;
    }
}
