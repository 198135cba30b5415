//! What can be seen of a running lab: its status, the flows that it remembers, and captured packets.

use super::address::address_text;
use super::frame::{head_of, payload_start};
use super::host::Counters;
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

    pub(super) fn top(&self) -> Vec<FlowStatus> {
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
    /// Of at most `packets` packets, `snap` bytes of each.
    pub(super) fn new(to: SyncSender<CapturedFrame>, snap: usize, packets: u64) -> Capture {
        Capture { to, snap, left: packets }
    }

    /// False once nothing more is wanted.
    pub(super) fn keep(&mut self, at: Time, packet: &Packet, pool: &Pool) -> bool {
        if self.left == 0 {
            return false;
        }
        let frame = pool.frame(packet.slot);
        let Some(head) = head_of(packet, false, pool) else { return true };
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
