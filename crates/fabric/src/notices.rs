//! Notifications of dropped packets on their way through the fabric: see [`crate::Notify`].

use crate::fabric::{Event, Fabric};
use crate::notify::notification;
use crate::packet::PacketId;
use crate::port::PortId;
use sim::Scheduler;
use topology::NodeId;
use units::Time;

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
