//! From the fabric to the guest: what drives [`nic::Rx`].

use super::{standing, Network};
use crate::clock::Event;
use crate::connection::EndId;
use crate::nic::{Handed, Io, Modelled, Poll, Segment};
use edge::{Direction, Transmit};
use fabric::{flow_hash, Packet, PacketId, Probe};
use units::Time;

impl Network<'_> {
    /// A packet reached its host's NIC.
    #[inline(never)]
    pub(super) fn arrived(&mut self, host: u32, id: PacketId) {
        if self.discoverers.is_some() && self.take_probe(host, id) {
            return;
        }
        if self.experiment.hosts.tcp.pfabric.is_some() && self.answer_probe(host, id) || self.serve(host, id) {
            return;
        }
        self.received(host, id);
    }

    /// The NIC of a pFabric host sends probes back by itself.
    #[inline(never)]
    fn answer_probe(&mut self, host: u32, id: PacketId) -> bool {
        if self.fabric.packets.body(id).probe != Probe::Asks || self.fabric.packets.body(id).is_notification() {
            return false;
        }
        let mut packet = self.fabric.packets.take(id);
        let h = &mut packet.headers;
        std::mem::swap(&mut h.saddr, &mut h.daddr);
        std::mem::swap(&mut h.sport, &mut h.dport);
        std::mem::swap(&mut h.seq, &mut h.ack);
        let (dst, flow, hash) = (packet.src, EndId(packet.flow).peer().0, flow_hash(&packet.headers));
        self.send_own(Packet { src: host, dst, flow, hash, probe: Probe::Answers, hops: 0, ..packet });
        true
    }

    /// The receive path gets a packet.
    pub(super) fn received(&mut self, host: u32, id: PacketId) {
        let h = &mut self.hosts[host as usize];
        let config = &self.experiment.hosts;
        match h.rx.arrive(self.clock.now(), h.rx_core_free_at, config, id, &mut self.fabric.packets) {
            Ok(poll) => self.schedule_poll(host, poll),
            Err(_) => {
                h.rx_ring_drops += 1;
                self.fabric.packets.remove(id);
            }
        }
    }

    fn schedule_poll(&mut self, host: u32, poll: Option<Poll>) {
        if let Some(Poll { at, generation }) = poll {
            self.clock.schedule(at, host, Event::Poll { generation });
        }
    }

    /// A NAPI poll is due. False: it is not. Otherwise take what [`next_segment`](Network::next_segment) yields, and call
    /// [`end_batch`](Network::end_batch), and [`end_poll`](Network::end_poll).
    pub(crate) fn begin_poll(&mut self, host: u32, generation: u16) -> bool {
        self.hosts[host as usize].rx.begin_poll(generation)
    }

    /// The next segment for the guest in the poll under way.
    pub(crate) fn next_segment(&mut self, host: u32) -> Option<Segment> {
        let (experiment, now) = (self.experiment, self.clock.now());
        let h = &mut self.hosts[host as usize];
        let shaper = &h.shaper;
        let packets = &mut self.fabric.packets;
        let mut io = Io { now, config: &experiment.hosts, edge: &mut h.edge, packets, frames: &Modelled };
        loop {
            match h.rx.next(&mut io, |to| standing(experiment, shaper.as_ref()?, to, now))? {
                Handed::Up(segment) => return Some(segment),
                Handed::Gone(_) => {}
            }
        }
    }

    /// All of the poll is handed up. True: the edge may have released something.
    pub(crate) fn end_batch(&mut self, host: u32) -> bool {
        let polled = self.hosts[host as usize].rx.polled();
        self.hosts[host as usize].rx_packets += u64::from(polled.packets);
        if let Some(cpu) = &self.experiment.hosts.cpu {
            self.charge(host, cpu.rx_packets(polled.packets, polled.bytes));
        }
        let stateful = self.experiment.edge.reorder.is_some() || self.edge_has_timers;
        if stateful {
            self.hosts[host as usize].edge.end_batch(self.clock.now());
        }
        stateful
    }

    pub(crate) fn end_poll(&mut self, host: u32) {
        let h = &mut self.hosts[host as usize];
        let poll = h.rx.end_poll(self.clock.now(), h.rx_core_free_at);
        self.schedule_poll(host, poll);
    }

    /// The next segment that a host's edge releases.
    pub(crate) fn next_released(&mut self, host: u32) -> Option<Segment> {
        let now = self.clock.now();
        let h = &mut self.hosts[host as usize];
        let (config, packets) = (&self.experiment.hosts, &mut self.fabric.packets);
        h.rx.released(&mut Io { now, config, edge: &mut h.edge, packets, frames: &Modelled })
    }

    /// What a host's edge has made for its guests, all at once: a guest that answers makes the edge transmit again. What it has made for
    /// other edges is sent. Call [`edge_drained`](Network::edge_drained) when the guests have it.
    pub(crate) fn made_for_guests(&mut self, host: u32) -> Vec<Transmit> {
        self.send_again(host);
        let now = self.clock.now();
        let edge = &mut self.hosts[host as usize].edge;
        let made: Vec<Transmit> = std::iter::from_fn(|| edge.poll_transmit(now)).collect();
        let (up, down): (Vec<_>, Vec<_>) = made.into_iter().partition(|made| made.dir == Direction::Ingress);
        for made in down {
            self.transmit_made(host, made.packet);
        }
        up
    }

    /// Sets the edge's timer.
    pub(crate) fn edge_drained(&mut self, host: u32) {
        self.set_edge_timer(host);
    }

    pub(crate) fn edge_timeout(&mut self, host: u32) {
        self.hosts[host as usize].edge.handle_timeout(self.clock.now());
    }

    /// Counts a segment for the guest.
    pub(crate) fn note_received(&mut self, host: u32, segment: &Segment) {
        let h = &mut self.hosts[host as usize];
        h.rx_segments += 1;
        h.rx_bytes += u64::from(segment.packet.headers.payload);
    }

    /// What TCP costs a host's core for a segment.
    pub(crate) fn charge_segment(&mut self, host: u32, out_of_order: u32) {
        if let Some(cpu) = &self.experiment.hosts.cpu {
            self.charge(host, cpu.rx_segments(1, out_of_order));
        }
    }

    #[inline(never)]
    fn charge(&mut self, host: u32, cost: Time) {
        let now = self.clock.now();
        let h = &mut self.hosts[host as usize];
        h.rx_core_free_at = h.rx_core_free_at.max(now) + cost;
        h.rx_cpu_busy += cost;
    }
}

impl Network<'_> {
    /// Has a received packet handled, if hosts are modelled so. False: the receive path gets it at once.
    pub(super) fn serve(&mut self, host: u32, id: PacketId) -> bool {
        let Some(server) = &mut self.hosts[host as usize].server else { return false };
        if !server.model.notifications && self.fabric.packets.body(id).is_notification() {
            return false;
        }
        let now = self.clock.now();
        if server.packets.len() >= self.experiment.hosts.rx_ring as usize {
            self.hosts[host as usize].rx_ring_drops += 1;
            self.fabric.packets.remove(id);
            return true;
        }
        let at = server.admit(now, id);
        if self.measuring {
            self.server_delays.add(at - now);
        }
        self.clock.schedule(at, host, Event::Served);
        true
    }

    /// A host has handled a packet.
    pub(crate) fn served(&mut self, host: u32) {
        let done = self.hosts[host as usize].server.as_mut().and_then(|server| server.packets.pop_front());
        if let Some((_, id)) = done {
            self.received(host, id);
        }
    }
}
