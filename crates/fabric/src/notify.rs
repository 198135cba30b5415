//! Notifications of dropped packets: FastLane (Zats et al. 2013, section 3.1). A switch sends the headers of a TCP packet that it
//! drops back to the packet's source, by the port at which the packet arrived, ahead of all data. Two caps bound what notifications
//! cost: a share of each link's rate while data waits, and a buffer a port.

use crate::packet::{flow_hash, List, Packet, PacketId, Packets, NOTIFICATION};
use units::{BitRate, Bytes, Time};
use wire::proto;

/// Whether and how switches notify sources of dropped TCP packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notify {
    pub pace: Pace,
    /// Frames of notifications that wait at a port at most; more are dropped. The paper has 3.2 KB, 50 of the smallest.
    pub buffer: Option<Bytes>,
    /// A notification leaves at once where no data waits. Otherwise the pace holds also then.
    pub work_conserving: bool,
}

/// How fast notifications leave a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Millionths of the link's rate, for their frames without preamble and gap.
    Share { per_million: u32 },
    /// One in this time, whatever the link's rate.
    Every(Time),
    /// As fast as the link.
    Unlimited,
}

impl Default for Notify {
    /// The paper's caps: 1% of the link, 3.2 KB, work conserving.
    fn default() -> Notify {
        Notify { pace: Pace::Share { per_million: 10_000 }, buffer: Some(Bytes(3_200)), work_conserving: true }
    }
}

/// What a port did with notifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotifyStats {
    pub tx_packets: u64,
    /// Frames without preamble and gap.
    pub tx_bytes: u64,
    /// Of those, sent while data waited.
    pub tx_bytes_with_data: u64,
    /// Without room in the buffer, or while the link was down.
    pub dropped_packets: u64,
    /// Longest queue of frames, bytes.
    pub queue_max: u64,
}

impl NotifyStats {
    /// What has happened since `before`; the longest queue is that of the whole time.
    pub fn since(self, before: NotifyStats) -> NotifyStats {
        NotifyStats {
            tx_packets: self.tx_packets - before.tx_packets,
            tx_bytes: self.tx_bytes - before.tx_bytes,
            tx_bytes_with_data: self.tx_bytes_with_data - before.tx_bytes_with_data,
            dropped_packets: self.dropped_packets - before.dropped_packets,
            queue_max: self.queue_max,
        }
    }
}

/// Preamble and gap, which caps do not count.
const GAP: u64 = 20;
const PS_PER_SECOND: u128 = 1_000_000_000_000;

/// The notification of a packet: `None` if it has none, as notifications themselves, fragments and other protocols have not.
pub(crate) fn notification(of: &Packet) -> Option<Packet> {
    if of.headers.proto != proto::TCP || of.is_notification() {
        return None;
    }
    let mut headers = of.headers;
    std::mem::swap(&mut headers.saddr, &mut headers.daddr);
    headers.truncated = u8::from(headers.payload > 0);
    headers.ecn = 0;
    let kept = u32::from(headers.ip_header_len) + u32::from(headers.l4_header_len);
    Some(Packet {
        src: of.dst,
        dst: of.src,
        wire_len: (kept + 38).max(84),
        hash: flow_hash(&headers),
        flow: of.flow,
        probe: of.probe,
        priority: NOTIFICATION,
        headers,
        options: of.options,
        ..Packet::default()
    })
}

/// Octets that the caps count of a notification.
fn frame_len(packets: &Packets, id: PacketId) -> u64 {
    u64::from(packets.hop(id).wire_len) - GAP
}

/// The notifications that wait at a port.
#[derive(Clone, Debug)]
pub(crate) struct Notices {
    config: Notify,
    queue: List,
    /// Their frames, octets.
    held: u64,
    /// When the pace lets the next one go, in picoseconds.
    next_at: u64,
    /// An event is on its way that lets the next one go.
    pub(crate) armed: bool,
    pub(crate) stats: NotifyStats,
}

impl Notices {
    pub(crate) fn new(config: Notify) -> Notices {
        let (queue, stats) = (List::default(), NotifyStats::default());
        Notices { config, queue, held: 0, next_at: 0, armed: false, stats }
    }

    pub(crate) fn list(&self) -> &List {
        &self.queue
    }

    /// Whether the buffer has room for it.
    pub(crate) fn fits(&self, id: PacketId, packets: &Packets) -> bool {
        self.config.buffer.is_none_or(|limit| self.held + frame_len(packets, id) <= limit.get())
    }

    pub(crate) fn push(&mut self, id: PacketId, packets: &mut Packets) {
        self.held += frame_len(packets, id);
        self.stats.queue_max = self.stats.queue_max.max(self.held);
        self.queue.push(id, packets);
    }

    /// When a port that is idle at `now` has to be woken for what waits here; `None`: never.
    pub(crate) fn wake_at(&self, now: u64) -> Option<u64> {
        let waits = !self.config.work_conserving && !self.queue.is_empty();
        waits.then_some(self.next_at.max(now))
    }

    /// The one that the port sends at `at`; `data`: other packets wait.
    pub(crate) fn pop(&mut self, at: u64, data: bool, rate: BitRate, packets: &mut Packets) -> Option<PacketId> {
        if at < self.next_at && (data || !self.config.work_conserving) {
            return None;
        }
        let id = self.queue.pop(packets)?;
        let bytes = frame_len(packets, id);
        self.held -= bytes;
        self.next_at = at + self.gap(bytes, rate);
        self.stats.tx_packets += 1;
        self.stats.tx_bytes += bytes;
        self.stats.tx_bytes_with_data += if data { bytes } else { 0 };
        Some(id)
    }

    /// Time for which a notification uses up the share, in picoseconds.
    fn gap(&self, bytes: u64, rate: BitRate) -> u64 {
        match self.config.pace {
            Pace::Share { per_million } => {
                let share = u128::from(rate.as_bps()) * u128::from(per_million.max(1));
                (u128::from(bytes) * 8 * PS_PER_SECOND * 1_000_000 / share.max(1)) as u64
            }
            Pace::Every(time) => time.as_ps(),
            Pace::Unlimited => 0,
        }
    }

    /// Takes one out whatever the pace: the link has failed.
    pub(crate) fn evict(&mut self, packets: &mut Packets) -> Option<PacketId> {
        let id = self.queue.pop(packets)?;
        self.held -= frame_len(packets, id);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::notification::{is_notification, notification as of_frame};
    use wire::{emit, parse, v4, TcpOptions};

    fn v6(low: u32) -> [u32; 4] {
        [0x2001_0db8, 0, 0, low]
    }

    proptest! {
        /// The model's notification of a packet is the one that a switch would make of its frame.
        #[test]
        fn the_models_notification_is_the_frames(
            (six, proto) in (any::<bool>(), prop_oneof![4 => Just(proto::TCP), 1 => Just(proto::UDP)]),
            (from, to, sport, dport) in any::<(u32, u32, u16, u16)>(),
            (seq, ack, window, tcp_flags) in any::<(u32, u32, u16, u8)>(),
            (payload, ecn, priority) in (0u32..9000, 0u8..4, 0u8..8),
            (stamped, stamps) in any::<(bool, (u32, u32))>(),
        ) {
            let address = |n: u32| if six { v6(n) } else { v4(n.to_be_bytes()) };
            let options = TcpOptions { timestamps: stamped.then_some(stamps), ..TcpOptions::default() };
            let sent = wire::Packet {
                saddr: address(from), daddr: address(to), sport, dport, seq, ack, window, tcp_flags, payload, ecn, proto,
                family: if six { 6 } else { 4 },
                ..wire::Packet::default()
            };
            let frame = emit(&sent, &options).unwrap();
            let headers = parse(&frame).unwrap();
            let dropped = Packet { src: 3, dst: 5, priority, headers, ..Packet::default() };
            let (model, real) = (notification(&dropped), of_frame(&frame));
            prop_assert_eq!((model.is_some(), real.is_some()), (proto == proto::TCP, proto == proto::TCP));
            if let (Some(model), Some(real)) = (model, real) {
                let told = parse(&real).unwrap();
                prop_assert_eq!(model.headers, told);
                prop_assert_eq!((told.saddr, told.daddr), (headers.daddr, headers.saddr));
                prop_assert_eq!((told.sport, told.dport, told.payload), (headers.sport, headers.dport, headers.payload));
                // With FCS, preamble and gap, and no less than the least frame.
                prop_assert_eq!(model.wire_len as usize, (real.len() + 4).max(64) + 20);
                prop_assert_eq!((model.src, model.dst), (5, 3));
                prop_assert!(model.is_notification() && is_notification(&real));
                prop_assert!(notification(&model).is_none() && of_frame(&real).is_none());
            }
        }
    }
}
