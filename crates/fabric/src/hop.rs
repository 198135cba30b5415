//! What a packet does at every hop: it arrives, and the next port takes it in.
//!
//! Nearly all of a simulation's work is here. What most hops need is inlined; what few need is in functions of its own, out of the
//! way of the processor's instruction cache.

use crate::capture::Captured;
use crate::fabric::{Event, Fabric};
use crate::packet::{Delivery, PacketId};
use crate::port::PortId;
use sim::Scheduler;
use topology::NodeId;
use units::Time;

impl Fabric {
    /// An arrival in a fabric that is not plain.
    #[inline(never)]
    pub(crate) fn arrive_watched<E: Copy + From<Event>>(
        &mut self,
        port_id: PortId,
        scheduler: &mut Scheduler<E>,
    ) -> Option<Delivery> {
        self.arrive::<false, E>(port_id, scheduler)
    }

    /// The packet at the head of a port's wire arrives. `PLAIN`: nothing but queues, marks and tables has to do with packets.
    #[inline(always)]
    pub(crate) fn arrive<const PLAIN: bool, E: Copy + From<Event>>(
        &mut self,
        port_id: PortId,
        scheduler: &mut Scheduler<E>,
    ) -> Option<Delivery> {
        let now = scheduler.now().as_ps();
        if !PLAIN && self.picks {
            // Before what it is about may be gone.
            self.see_to_picked(port_id, scheduler);
        }
        let port = &mut self.ports[port_id as usize];
        // A link that failed leaves a stale event behind; the head that it was for is gone.
        if self.packets.hop(port.wire.head()?).at_ps != now {
            return None;
        }
        let id = port.wire.pop(&mut self.packets)?;
        if port.is_due(now) {
            self.nodes[port.from as usize].held -= port.advance(now, &mut self.packets);
        }
        if let Some(head) = port.wire.head() {
            let at = Time::from_ps(self.packets.hop(head).at_ps);
            scheduler.schedule_ranked(at, port.to, port_id, Event::Arrival { port: port_id }.into());
        }
        let (to, to_host) = (port.to, port.to_host);
        self.packet_hops += 1;
        if !PLAIN && !self.watch(port_id, id, scheduler) {
            return None;
        }
        if to_host {
            self.delivered_bytes += u64::from(self.packets.hop(id).wire_len);
            return Some(Delivery { host: to, packet: id });
        }
        if self.packets.hop(id).expires() && !self.turn_back(to, id, port_id, scheduler) {
            return None;
        }
        if !PLAIN && (self.picks || self.ranked) {
            // It may be dropped later on.
            self.packets.body_mut(id).came = port_id;
        }
        let next = if PLAIN { self.plain_hop(to, id, port_id, now) } else { self.next_hop(to, id, port_id, now) };
        if !next.is_some_and(|next| self.enqueue(next, id, scheduler)) {
            self.drop_packet(next, id, port_id, scheduler);
        }
        None
    }

    /// What few fabrics do with a packet that has crossed a wire. False: it is lost.
    fn watch<E: Copy + From<Event>>(&mut self, port_id: PortId, id: PacketId, scheduler: &mut Scheduler<E>) -> bool {
        if self.picks {
            self.arm_picked(port_id, scheduler);
        }
        if let Some(tap) = self.tap.as_mut().filter(|t| t.port == port_id && t.packets.len() < t.limit) {
            tap.packets.push(Captured { at: scheduler.now(), packet: self.packets.get(id) });
        }
        let to = self.ports[port_id as usize].to as usize;
        let lost = self.loss.per_million != 0 && self.draws[to].below(1_000_000) < u64::from(self.loss.per_million);
        if lost {
            self.lost_bytes += u64::from(self.packets.hop(id).wire_len);
            self.lost_packets += 1;
            self.lose(id);
        }
        !lost
    }

    /// A packet has come as far as it goes: back to its source with it. False: it is a notification, and on its way.
    #[cold]
    #[inline(never)]
    fn turn_back<E: Copy + From<Event>>(
        &mut self,
        node: NodeId,
        id: PacketId,
        came: PortId,
        scheduler: &mut Scheduler<E>,
    ) -> bool {
        if self.packets.hop(id).is_notification() {
            self.forward_notification(node, id, came, scheduler);
            return false;
        }
        self.packets.turn_back(id, came);
        true
    }

    /// A switch drops what came by a port, for want of room at the next, or of a next one.
    #[cold]
    #[inline(never)]
    fn drop_packet<E: Copy + From<Event>>(
        &mut self,
        next: Option<PortId>,
        id: PacketId,
        came: PortId,
        scheduler: &mut Scheduler<E>,
    ) {
        if next.is_none() {
            self.unroutable_packets += 1;
            self.lost_bytes += u64::from(self.packets.hop(id).wire_len);
        }
        self.notify(id, came, scheduler);
        self.lose(id);
    }

    /// False: the port does not take the packet.
    #[inline(never)]
    #[must_use]
    pub(crate) fn enqueue<E: Copy + From<Event>>(
        &mut self,
        port_id: PortId,
        id: PacketId,
        scheduler: &mut Scheduler<E>,
    ) -> bool {
        self.enqueue_as::<false, E>(port_id, id, scheduler)
    }

    #[cold]
    #[inline(never)]
    fn enqueue_admitted<E: Copy + From<Event>>(&mut self, port_id: PortId, id: PacketId, scheduler: &mut Scheduler<E>) {
        self.enqueue_as::<true, E>(port_id, id, scheduler);
    }

    /// `ADMITTED`: the port takes the packet.
    #[inline(always)]
    fn enqueue_as<const ADMITTED: bool, E: Copy + From<Event>>(
        &mut self,
        port_id: PortId,
        id: PacketId,
        scheduler: &mut Scheduler<E>,
    ) -> bool {
        let now = scheduler.now().as_ps();
        let bytes = u64::from(self.packets.hop(id).wire_len);
        let port = &mut self.ports[port_id as usize];
        let node = &mut self.nodes[port.from as usize];
        if port.is_due(now) {
            node.held -= port.advance(now, &mut self.packets);
        }
        // A host's own port has no limit.
        let unlimited = ADMITTED || node.is_host && port.up;
        if !unlimited {
            if !port.up || self.picks || !self.buffer.has(port.occupancy, bytes, node.held) {
                let admitted = self.admit(port_id, id, scheduler);
                if admitted {
                    self.enqueue_admitted(port_id, id, scheduler);
                }
                return admitted;
            }
            if port.occupancy >= self.calm_below {
                let draws = &mut self.draws[port.from as usize];
                if !self.aqm.is_none_or(|aqm| port.manage(aqm, draws, id, &mut self.packets)) {
                    port.lost.add(bytes);
                    return false;
                }
            }
        }
        node.held += bytes;
        let wire_was_empty = port.wire.is_empty();
        port.push(id, now, &mut self.packets);
        if wire_was_empty {
            self.await_head(port_id, scheduler);
        }
        true
    }

    /// Whether a port that has been advanced to now takes a packet, if it is not plain that it does. Counts what it does not take.
    #[cold]
    #[inline(never)]
    fn admit<E: Copy + From<Event>>(&mut self, port_id: PortId, id: PacketId, scheduler: &mut Scheduler<E>) -> bool {
        let port = &self.ports[port_id as usize];
        let (from, up, queue) = (port.from as usize, port.up, port.occupancy);
        let taken = up
            && (self.nodes[from].is_host
                || self.has_room(from, port_id, id, queue, scheduler) && {
                    let (port, draws) = (&mut self.ports[port_id as usize], &mut self.draws[from]);
                    self.aqm.is_none_or(|aqm| port.manage(aqm, draws, id, &mut self.packets))
                });
        if self.picks {
            self.arm_picked(port_id, scheduler);
        }
        if !taken {
            self.ports[port_id as usize].lost.add(u64::from(self.packets.hop(id).wire_len));
        }
        taken
    }

    /// Whether a switch has room for a packet at a port that has been advanced to now and holds `queue` octets. Where packets have
    /// ranks, those behind it make room.
    #[inline]
    fn has_room<E: Copy + From<Event>>(
        &mut self,
        node: usize,
        port_id: PortId,
        id: PacketId,
        queue: u64,
        scheduler: &mut Scheduler<E>,
    ) -> bool {
        let bytes = u64::from(self.packets.hop(id).wire_len);
        let fits = self.fits(node, queue, bytes, scheduler.now().as_ps());
        fits || self.ranked && self.make_room(node, port_id, id, scheduler)
    }

    /// Something has been sent or queued at a port with an empty wire: sees to it that the wire's new head will arrive.
    #[inline]
    pub(crate) fn await_head<E: Copy + From<Event>>(&mut self, port_id: PortId, scheduler: &mut Scheduler<E>) {
        let port = &mut self.ports[port_id as usize];
        if port.cut {
            if !std::mem::replace(&mut port.listed, true) {
                self.outgoing.push(port_id);
            }
        } else if let Some(head) = port.wire.head() {
            let at = Time::from_ps(self.packets.hop(head).at_ps);
            scheduler.schedule_ranked(at, port.to, port_id, Event::Arrival { port: port_id }.into());
        }
    }

    /// Whether a switch's buffer has room for a packet at a port which holds `queue` octets and has been advanced to `now`.
    #[inline]
    pub(crate) fn fits(&mut self, node: usize, queue: u64, bytes: u64, now: u64) -> bool {
        self.buffer.has(queue, bytes, self.nodes[node].held)
            || self.buffer.is_shared() && {
                // What the others hold may have left since they were last looked at.
                self.settle(node, now);
                self.buffer.has(queue, bytes, self.nodes[node].held)
            }
    }

    /// Puts out packets that rank behind one until there is room for it; false: there are too few.
    #[cold]
    pub(crate) fn make_room<E: Copy + From<Event>>(
        &mut self,
        node: usize,
        port_id: PortId,
        id: PacketId,
        scheduler: &mut Scheduler<E>,
    ) -> bool {
        let (bytes, rank) = (u64::from(self.packets.hop(id).wire_len), self.packets.hop(id).rank);
        loop {
            let port = &mut self.ports[port_id as usize];
            let before = port.occupancy;
            let Some(victim) = port.evict_behind(rank, &self.packets) else { return false };
            let left = port.occupancy;
            self.nodes[node].held -= before - left;
            self.notify(victim, self.packets.body(victim).came, scheduler);
            self.lose(victim);
            if self.fits(node, left, bytes, scheduler.now().as_ps()) {
                return true;
            }
        }
    }
}
