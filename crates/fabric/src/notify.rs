//! Notifications of dropped packets: FastLane (Zats et al. 2013, section 3.1). A switch sends the headers of a TCP packet that it
//! drops back to the packet's source, by the port at which the packet arrived, ahead of all data. Two caps bound what notifications
//! cost: a share of each link's rate while data waits, and a buffer a port.

use crate::fabric::{Event, Fabric};
use crate::packet::{flow_hash, List, Packet, PacketId, Packets, NOTIFICATION};
use crate::port::PortId;
use sim::Scheduler;
use topology::NodeId;
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

impl Fabric {
    /// Sends the notification of a packet that is being dropped back by the port at which it came.
    #[cold]
    pub(crate) fn notify<E: Copy + From<Event>>(&mut self, id: PacketId, came: PortId, scheduler: &mut Scheduler<E>) {
        if !self.notifies {
            return;
        }
        let Some(notice) = notification(self.packets.body(id)) else { return };
        self.sent_bytes += u64::from(notice.wire_len);
        let notice = self.packets.add_notification(notice);
        // The two directions of a link are neighbours.
        self.enqueue_notification(came ^ 1, notice, scheduler);
    }

    #[cold]
    pub(crate) fn forward_notification<E: Copy + From<Event>>(
        &mut self,
        node: NodeId,
        id: PacketId,
        came: PortId,
        scheduler: &mut Scheduler<E>,
    ) {
        match self.next_hop(node, id, came, scheduler.now().as_ps()) {
            Some(next) => self.enqueue_notification(next, id, scheduler),
            None => {
                self.unroutable_packets += 1;
                self.lost_bytes += u64::from(self.packets.hop(id).wire_len);
                self.lose(id);
            }
        }
    }

    fn enqueue_notification<E: Copy + From<Event>>(
        &mut self,
        port_id: PortId,
        id: PacketId,
        scheduler: &mut Scheduler<E>,
    ) {
        let now = scheduler.now().as_ps();
        self.advance(port_id, now);
        let bytes = u64::from(self.packets.hop(id).wire_len);
        let port = &mut self.ports[port_id as usize];
        let wire_was_empty = port.wire.is_empty();
        if !port.push_notice(id, now, &mut self.packets) {
            self.lost_bytes += bytes;
            self.lose(id);
            return;
        }
        self.nodes[self.ports[port_id as usize].from as usize].held += bytes;
        self.after_kick(port_id, wire_was_empty, scheduler);
    }

    /// The time has come for a notification that waited at an idle port.
    #[cold]
    pub(crate) fn release<E: Copy + From<Event>>(&mut self, port_id: PortId, scheduler: &mut Scheduler<E>) {
        let now = scheduler.now().as_ps();
        let wire_was_empty = self.ports[port_id as usize].wire.is_empty();
        self.advance(port_id, now);
        let port = &mut self.ports[port_id as usize];
        port.disarm();
        port.kick(now, &mut self.packets);
        self.after_kick(port_id, wire_was_empty, scheduler);
    }

    /// Schedules what a port needs that has just been kicked.
    fn after_kick<E: Copy + From<Event>>(
        &mut self,
        port_id: PortId,
        wire_was_empty: bool,
        scheduler: &mut Scheduler<E>,
    ) {
        let now = scheduler.now().as_ps();
        if wire_was_empty {
            self.await_head(port_id, scheduler);
        }
        let port = &mut self.ports[port_id as usize];
        if let Some(at) = port.arm(now) {
            scheduler.schedule(Time::from_ps(at), port.from, Event::Release { port: port_id }.into());
        }
    }
}
