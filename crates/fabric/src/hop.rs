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
                let (queue, draws) = (port.occupancy, &mut self.draws[port.from as usize]);
                if !self.aqm.is_none_or(|aqm| port.manage(aqm, queue, draws, id, &mut self.packets)) {
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
        let (from, up) = (port.from as usize, port.up);
        let taken = up && (self.nodes[from].is_host || self.admit_at_switch(from, port_id, id, scheduler));
        if self.picks {
            self.arm_picked(port_id, scheduler);
        }
        if !taken {
            self.ports[port_id as usize].lost.add(u64::from(self.packets.hop(id).wire_len));
        }
        taken
    }

    /// Whether a switch takes a packet at a port that has been advanced to now. Where packets have ranks, those behind it make room: none
    /// of them for a packet that is not taken.
    #[inline]
    fn admit_at_switch<E: Copy + From<Event>>(
        &mut self,
        node: usize,
        port_id: PortId,
        id: PacketId,
        scheduler: &mut Scheduler<E>,
    ) -> bool {
        let (queue, bytes) = (self.ports[port_id as usize].occupancy, u64::from(self.packets.hop(id).wire_len));
        if !self.fits(node, queue, bytes, scheduler.now().as_ps()) {
            return self.ranked && self.admit_for_others(node, port_id, id, scheduler);
        }
        self.manage(node, port_id, id, queue)
    }

    /// What queue management says of a packet that finds `queue` octets.
    #[inline]
    fn manage(&mut self, node: usize, port_id: PortId, id: PacketId, queue: u64) -> bool {
        let (port, draws) = (&mut self.ports[port_id as usize], &mut self.draws[node]);
        self.aqm.is_none_or(|aqm| port.manage(aqm, queue, draws, id, &mut self.packets))
    }

    /// The same of a packet for which others have to make room.
    #[cold]
    fn admit_for_others<E: Copy + From<Event>>(
        &mut self,
        node: usize,
        port_id: PortId,
        id: PacketId,
        scheduler: &mut Scheduler<E>,
    ) -> bool {
        let Some((victims, queue)) = self.victims(node, port_id, id) else { return false };
        let taken = self.manage(node, port_id, id, queue);
        if taken {
            self.make_room(node, port_id, id, victims, scheduler);
        }
        taken
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

    /// How many packets that rank behind one a switch has to put out at a port, so that there is room for it, and what the port holds then.
    /// `None`: there are too few. What its ports hold must be exact.
    #[cold]
    fn victims(&self, node: usize, port_id: PortId, id: PacketId) -> Option<(usize, u64)> {
        let (bytes, rank) = (u64::from(self.packets.hop(id).wire_len), self.packets.hop(id).rank);
        let (port, mut held) = (&self.ports[port_id as usize], self.nodes[node].held);
        let mut queue = port.occupancy;
        (1..).zip(port.behind(rank)).find_map(|(victims, victim)| {
            let out = u64::from(self.packets.hop(victim).wire_len);
            (queue, held) = (queue - out, held - out);
            self.buffer.has(queue, bytes, held).then_some((victims, queue))
        })
    }

    /// Puts out so many packets that rank behind one.
    #[cold]
    fn make_room<E: Copy + From<Event>>(
        &mut self,
        node: usize,
        port_id: PortId,
        id: PacketId,
        victims: usize,
        scheduler: &mut Scheduler<E>,
    ) {
        let rank = self.packets.hop(id).rank;
        for _ in 0..victims {
            let port = &mut self.ports[port_id as usize];
            let before = port.occupancy;
            let now = scheduler.now().as_ps();
            let Some(victim) = port.evict_behind(rank, now, &self.packets) else { return };
            self.nodes[node].held -= before - port.occupancy;
            self.notify(victim, self.packets.body(victim).came, scheduler);
            self.lose(victim);
        }
    }
}
