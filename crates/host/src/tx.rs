//! From guest TCP to the fabric: edge, NIC queue, split.

use crate::connection::{split, EndId};
use crate::experiment::Limiter;
use crate::gro::RxSegment;
use crate::host::{InNic, TxSegment};
use crate::world::{Event, World};
use edge::limiter::Standing;
use edge::{Direction, Slot, Verdict};
use fabric::Packet;
use units::Time;

impl World<'_> {
    /// What TCP's calling contract asks for after every call that changed an end: send, then set its timer.
    pub(crate) fn after_tcp(&mut self, id: EndId) {
        self.send_from(id);
        if let Some((group, _)) = self.connections[id.connection()].group {
            self.feed(group, id.end());
        }
    }

    /// The same without the other subflows of an MPTCP connection.
    pub(crate) fn send_from(&mut self, id: EndId) {
        let now = self.scheduler.now();
        let (c, e) = (id.connection(), id.end());
        while let Some(segment) = self.connections[c].ends[e].poll_transmit(now, u64::MAX) {
            let packet = self.connections[c].packet(id, &segment);
            self.transmit(packet);
        }
        let connection = &self.connections[c];
        let (timer, deadline, host) = (connection.timers[e], connection.ends[e].poll_timeout(), connection.hosts[e]);
        self.set_timer(timer, deadline, host);
    }

    /// Passes a segment through its host's edge into the NIC queue.
    pub(crate) fn transmit(&mut self, mut packet: Packet) {
        let now = self.scheduler.now();
        let host = packet.src;
        let standing = self.standing(host, packet.dst);
        let h = &mut self.hosts[host as usize];
        let verdict = h.edge.process_limited(now, Direction::Egress, Slot::default(), &mut packet.headers, standing);
        if self.edge_transmits() {
            // What the edge adds belongs to the same flow and goes first.
            while let Some(extra) = self.hosts[host as usize].edge.poll_transmit(now) {
                let label = extra.packet.label;
                let options = wire::TcpOptions::default();
                self.queue_for_nic(Packet { headers: extra.packet, label, options, ..packet });
            }
            self.set_edge_timer(host);
        }
        if verdict != Verdict::Forward {
            self.release_from_nic(&packet);
            return;
        }
        packet.label = packet.headers.label;
        self.note_label(&packet);
        self.queue_for_nic(packet);
    }

    /// Edges that follow connections make packets of their own, and have timers.
    pub(crate) fn edge_transmits(&self) -> bool {
        self.experiment.edge.congestion.is_some() || self.experiment.edge.limiter.is_some()
    }

    /// The class of the limiter that what `host` sends to `to` goes through.
    pub(crate) fn standing(&self, host: u32, to: u32) -> Option<Standing> {
        let shaper = self.hosts[host as usize].shaper.as_ref()?;
        let class = self.experiment.edge.limiter.as_ref()?.class_of(to)?;
        Some(shaper.standing(class, self.scheduler.now()))
    }

    /// A segment that was dropped leaves TCP's small queue all the same.
    fn release_from_nic(&mut self, packet: &Packet) {
        if packet.headers.payload > 0 && packet.flow < crate::sampling::PROBE {
            let sender = EndId(packet.flow).peer();
            let connection = &mut self.connections[sender.connection()];
            connection.ends[sender.end()].on_nic_tx_done(u64::from(packet.headers.payload));
        }
    }

    /// Gives guests what their edge made for them, and sets the edge's timer.
    pub(crate) fn drain_edge_transmit(&mut self, host: u32) {
        let now = self.scheduler.now();
        // All at once: a guest that answers makes its edge transmit again.
        let edge = &mut self.hosts[host as usize].edge;
        let extras: Vec<_> = std::iter::from_fn(|| edge.poll_transmit(now)).collect();
        for extra in extras {
            let key = extra.packet.flow_key().reversed();
            let owner = self.connections.iter().enumerate().find_map(|(c, connection)| {
                let end = connection.live.then(|| (0..2).find(|&end| connection.key(end) == key)).flatten()?;
                Some(EndId::new(c as u32, end))
            });
            let Some(owner) = owner.filter(|_| extra.dir == Direction::Ingress) else { continue };
            let packet = Packet { src: host, dst: host, flow: owner.0, headers: extra.packet, ..Packet::default() };
            self.deliver(host, &RxSegment::new(packet));
        }
        self.set_edge_timer(host);
    }

    fn set_edge_timer(&mut self, host: u32) {
        let h = &self.hosts[host as usize];
        let (timer, deadline) = (h.edge_timer, h.edge.poll_timeout());
        self.set_timer(timer, deadline, host);
    }

    fn queue_for_nic(&mut self, packet: Packet) {
        let (now, host) = (self.scheduler.now(), packet.src);
        let h = &mut self.hosts[host as usize];
        let mut ready_at = now;
        if let Some(cpu) = &self.experiment.hosts.cpu {
            let cost = cpu.tx(packet.headers.packet_count(), packet.headers.payload);
            h.tx_core_free_at = h.tx_core_free_at.max(now) + cost;
            h.tx_cpu_busy += cost;
            ready_at = h.tx_core_free_at;
        }
        let segment = TxSegment { packet, ready_at, queued_at: now };
        let class = self.experiment.edge.limiter.as_ref().and_then(|limiter| limiter.class_of(packet.dst));
        match (&mut h.shaper, class) {
            (Some(shaper), Some(class)) => {
                if shaper.enqueue(class, segment, Limiter::bytes(&packet.headers)).is_err() {
                    self.release_from_nic(&packet);
                    return;
                }
                let backlog = shaper.backlog(class);
                self.sampling.note_backlog(backlog);
            }
            _ => h.tx_queue.push_back(segment),
        }
        self.tx_go(host);
    }

    /// The NIC's wake-up: the segment that it was sending has left.
    pub(crate) fn tx_event(&mut self, host: u32) {
        let now = self.scheduler.now();
        let h = &mut self.hosts[host as usize];
        if h.tx_event == Some(now) {
            h.tx_event = None;
        }
        let done = if h.nic_free_at <= now { h.in_nic.take() } else { None };
        self.tx_go(host);
        let Some(done) = done else { return };
        let id = EndId(done.sender);
        let connection = &mut self.connections[id.connection()];
        if connection.live {
            connection.ends[id.end()].on_nic_tx_done(done.bytes);
            self.after_tcp(id);
        }
    }

    /// Starts the next segment if the NIC is idle; otherwise makes sure that it will be woken.
    ///
    /// The NIC hands the fabric one segment at a time, so its port never queues more than that: everything else waits
    /// here, where it is counted once.
    fn tx_go(&mut self, host: u32) {
        let now = self.scheduler.now();
        loop {
            let h = &mut self.hosts[host as usize];
            let next_at = match h.tx_queue.front() {
                _ if h.in_nic.is_some() => h.nic_free_at,
                Some(next) => next.ready_at.max(h.nic_free_at),
                None => {
                    let Some(shaper) = &mut h.shaper else { return };
                    // As a qdisc does, it lets a segment go when the NIC can take it.
                    if h.nic_free_at <= now {
                        if let Some(due) = shaper.dequeue(now) {
                            h.tx_queue.push_back(due.item);
                            if self.measuring {
                                self.sampling.note_delay(now.saturating_sub(due.item.queued_at));
                            }
                            continue;
                        }
                    }
                    let Some(at) = shaper.poll_timeout(now) else { return };
                    at.max(h.nic_free_at)
                }
            };
            if h.in_nic.is_some() || next_at > now {
                let at = next_at.max(now);
                if h.tx_event.is_none_or(|pending| at < pending) {
                    h.tx_event = Some(at);
                    self.scheduler.schedule(at, host, Event::Tx);
                }
                return;
            }
            let Some(next) = h.tx_queue.pop_front() else { return };
            self.put_on_wire(host, &next.packet, now);
        }
    }

    fn put_on_wire(&mut self, host: u32, segment: &Packet, now: Time) {
        for i in 0..segment.headers.packet_count() {
            let packet = self.fabric.packets.add(split(segment, i));
            self.fabric.send(packet, &mut self.scheduler);
        }
        let free_at = self.fabric.uplink_free_at(host, now);
        let h = &mut self.hosts[host as usize];
        h.nic_free_at = free_at;
        if segment.headers.payload > 0 && segment.flow < crate::sampling::PROBE {
            let sender = EndId(segment.flow).peer().0;
            h.in_nic = Some(InNic { sender, bytes: u64::from(segment.headers.payload) });
        }
    }
}
