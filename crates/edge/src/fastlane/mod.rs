//! FastLane for guests that know nothing of it (`datapath/fastlane.h`).
//!
//! An edge keeps its guests' outstanding segments. So it can send one again when a switch has told of its drop.

mod connection;
mod room;
#[cfg(test)]
mod tests;

use crate::deadlines::Deadlines;
pub use crate::native::fastlane::Decision;
use crate::native::fastlane::{ANEW, BEYOND};
use crate::native::DUPACKS;
use crate::Slot;
use connection::{Connection, Kept};
use room::Room;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use units::{Bytes, Time};
use wire::{proto, tcp, FlowKey, Packet};

/// How much an edge keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Of one guest's outstanding segments, headers included. Default 4 MB.
    pub per_guest: Bytes,
    /// Of all guests'. Default 64 MB.
    pub in_all: Bytes,
}

impl Default for Config {
    fn default() -> Config {
        Config { per_guest: Bytes(4_000_000), in_all: Bytes(64_000_000) }
    }
}

/// What an edge has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Notifications that arrived; each also counts in one of the next eleven, first those of which something comes.
    pub notifications: u64,
    /// The edge sent the packet again at once.
    pub resent: u64,
    /// The guest got duplicate ACKs.
    pub told: u64,
    /// The guest repairs the loss by itself.
    pub left: u64,
    /// A copy of the edge was dropped too, less than a round trip after it left: the next one waits.
    pub postponed: u64,
    /// No connection of this edge.
    pub untracked: u64,
    /// Neither data nor SYN nor FIN.
    pub empty: u64,
    /// The bytes had arrived.
    pub acked: u64,
    /// Nothing that was sent.
    pub outside: u64,
    /// A later copy is under way.
    pub stale: u64,
    /// Told before.
    pub repeated: u64,
    /// The store had no room for the segment.
    pub unkept: u64,
    /// Packets sent again after they had waited.
    pub resent_later: u64,
    /// Retransmissions of guests that went no further, because the edge's copy was under way.
    pub suppressed: u64,
    /// Most bytes in the store.
    pub store_max: u64,
}

/// A packet to send again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resend {
    /// Under which the driver keeps the segment.
    pub slot: Slot,
    /// Which packet of the segment, once the NIC has split it.
    pub index: u32,
    /// The TCP timestamp that it is to have, if that is later than its own: the guest has sent something in front of it again
    /// (`datapath/stamp.h`).
    pub stamp: Option<u32>,
}

/// Copies of all connections that are counted at once.
const MAX_COPIES: usize = 65_536;

/// The part of an edge that acts on notifications.
#[derive(Debug)]
pub(crate) struct FastLane {
    /// By the number of the flow. Looked up only.
    connections: FxHashMap<u32, Connection>,
    room: Room,
    due: Deadlines,
    resends: VecDeque<(u32, u32, Resend)>,
    /// Of the segment that was processed last: its flow, and its slot.
    kept: Option<(u32, Slot)>,
    last_kept: Option<u32>,
    forgotten: Vec<Slot>,
    counters: Counters,
}

impl FastLane {
    pub(crate) fn new(config: &Config) -> FastLane {
        FastLane {
            connections: FxHashMap::default(),
            room: Room::new(config.per_guest.get(), config.in_all.get(), MAX_COPIES),
            due: Deadlines::default(),
            resends: VecDeque::new(),
            kept: None,
            last_kept: None,
            forgotten: Vec::new(),
            counters: Counters::default(),
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        Counters { store_max: self.room.most(), ..self.counters }
    }

    /// Follows a segment of flow `id` from the guest, and gives a pure ACK the number that it should have. True: it need not leave.
    /// `own`: it is the edge's. `stamp`: its TCP timestamp.
    pub(crate) fn sent(
        &mut self,
        now: Time,
        id: u32,
        slot: Slot,
        packet: &mut Packet,
        own: bool,
        stamp: Option<u32>,
    ) -> bool {
        if packet.proto != proto::TCP {
            return false;
        }
        let connection = self.connections.entry(id).or_insert_with(|| Connection::new(packet.saddr));
        let before = connection.state.sent_before();
        let found = connection.state.outgoing(packet, now);
        if found & ANEW != 0 {
            connection.clear(&mut self.room, &mut self.forgotten);
        }
        if own || connection::seq_len(packet) == 0 || packet.has_flags(tcp::RST) {
            return false;
        }
        if found & BEYOND == 0 {
            let suppressed = connection.again(now, packet, stamp, &mut self.room);
            self.counters.suppressed += u64::from(suppressed);
            return suppressed;
        }
        if let Some(before) = before.filter(|_| found & ANEW == 0) {
            connection.again_before(before, now, packet, &mut self.room);
        }
        if connection.keep(Kept::of(packet, slot), &mut self.room) {
            self.kept = Some((id, slot));
        }
        false
    }

    /// Follows a segment of flow `id` for the guest, and lowers its window.
    pub(crate) fn received(&mut self, now: Time, id: u32, packet: &mut Packet) {
        if packet.proto != proto::TCP {
            return;
        }
        let connection = self.connections.entry(id).or_insert_with(|| Connection::new(packet.daddr));
        if connection.state.incoming(packet, now) & ANEW != 0 {
            connection.clear(&mut self.room, &mut self.forgotten);
        }
        connection.forget_acked(&mut self.room, &mut self.forgotten);
    }

    /// A switch tells of a drop. `id` is the flow of the dropped packet; `None`: none is known. Returns the duplicate ACKs that the
    /// guest is to get.
    pub(crate) fn notified(&mut self, now: Time, id: Option<u32>, key: &FlowKey, packet: &Packet) -> Vec<Packet> {
        self.counters.notifications += 1;
        let Some((id, connection)) = id.and_then(|id| Some((id, self.connections.get_mut(&id)?))) else {
            self.counters.untracked += 1;
            return Vec::new();
        };
        let (decision, copies, place) = connection.notified(now, packet, &mut self.room);
        let counters = &mut self.counters;
        let counter = match decision {
            Decision::Resend => &mut counters.resent,
            Decision::Tell => &mut counters.told,
            Decision::Leave => &mut counters.left,
            Decision::Later => &mut counters.postponed,
            Decision::Untracked => &mut counters.untracked,
            Decision::Empty => &mut counters.empty,
            Decision::Acked => &mut counters.acked,
            Decision::Outside => &mut counters.outside,
            Decision::Stale => &mut counters.stale,
            Decision::Repeated => &mut counters.repeated,
            Decision::Unkept => &mut counters.unkept,
        };
        *counter += 1;
        match (decision, place) {
            (Decision::Resend, Some(resend)) => self.resends.push_back((id, copies.seq, resend)),
            (Decision::Later, _) => self.due.arm(id, connection.state.due_at(&copies)),
            (Decision::Tell, _) => return vec![connection.state.ack(key); DUPACKS],
            _ => {}
        }
        Vec::new()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.due.next().map(Time::from_ns)
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        while let Some(id) = self.due.pop(now.as_ns()) {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            for (seq, resend) in connection.due(now) {
                self.counters.resent_later += 1;
                self.resends.push_back((id, seq, resend));
            }
            if let Some(next) = connection.next_due() {
                self.due.arm(id, next);
            }
        }
    }

    /// The segment just processed is to be kept.
    pub(crate) fn poll_kept(&mut self) -> Option<Slot> {
        let (id, slot) = self.kept.take()?;
        self.last_kept = Some(id);
        Some(slot)
    }

    /// The driver has no room for the segment that it was just told to keep.
    pub(crate) fn cannot_keep(&mut self, slot: Slot) {
        let connection = self.last_kept.take().and_then(|id| self.connections.get_mut(&id));
        if let Some(connection) = connection {
            connection.take_back(slot, &mut self.room);
        }
    }

    pub(crate) fn poll_resend(&mut self) -> Option<Resend> {
        while let Some((id, seq, resend)) = self.resends.pop_front() {
            if let Some(connection) = self.connections.get(&id).filter(|c| c.is_outstanding(seq, resend.slot)) {
                return Some(Resend { stamp: connection.stamp.needed(seq), ..resend });
            }
        }
        None
    }

    /// What the driver need not keep any more. Resends come before.
    pub(crate) fn poll_forgotten(&mut self) -> Option<Slot> {
        self.forgotten.pop()
    }

    /// The flow is no more, or another one bears its number.
    pub(crate) fn forget(&mut self, id: u32) {
        if let Some(mut connection) = self.connections.remove(&id) {
            connection.clear(&mut self.room, &mut self.forgotten);
        }
    }
}

/// The flow of the packet that a notification tells of: addresses were swapped, ports were not.
pub(crate) fn dropped_key(notification: &Packet) -> FlowKey {
    let p = notification;
    FlowKey::new(p.daddr, p.saddr, p.sport, p.dport, p.proto)
}
