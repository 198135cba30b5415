//! From the fabric to a host's kernel: what drives [`host::nic::Rx`], as in the modelled hosts.

use super::driver::{Driver, Event};
use super::frame::{self, head_of};
use super::host::Host;
use super::merge::{Part, Pooled, Segment};
use fabric::PacketId;
use host::nic::{Handed, Io, Poll};
use port::Pool;
use sim::TimerId;
use std::io::IoSlice;
use units::Time;

impl Driver {
    pub(super) fn arrived(&mut self, host: u32, id: PacketId) {
        let h = &mut self.hosts[host as usize];
        let notification = self.fabric.packets.body(id).is_notification();
        if notification && !h.edge.acts_on_notifications() {
            // No kernel understands it.
            self.fabric.packets.remove(id);
            return;
        }
        match h.rx.arrive(self.scheduler.now(), Time::ZERO, &self.config, id, &mut self.fabric.packets) {
            Ok(poll) => {
                h.counters.rx_packets += 1;
                self.schedule_poll(host, poll);
            }
            Err(_) => {
                h.counters.rx_ring_drops += 1;
                let packet = self.fabric.packets.take(id);
                if !notification {
                    self.pool.release(packet.slot);
                }
            }
        }
    }

    fn schedule_poll(&mut self, host: u32, poll: Option<Poll>) {
        if let Some(Poll { at, generation }) = poll {
            self.scheduler.schedule(at, host, Event::Poll { generation });
        }
    }

    pub(super) fn poll(&mut self, at: Time, host: u32, generation: u16) {
        let index = host as usize;
        if !self.hosts[index].rx.begin_poll(generation) {
            return;
        }
        while let Some(handed) = self.next_handed(host) {
            match handed {
                Handed::Up(segment) => self.deliver(host, &segment),
                Handed::Gone(segment) => self.release(&segment),
            }
        }
        self.hosts[index].edge.end_batch(at);
        self.drain_edge(host);
        let packets = self.hosts[index].rx.polled().packets;
        let poll = self.hosts[index].rx.end_poll(at, Time::ZERO);
        self.schedule_poll(host, poll);
        self.lateness.note(self.clock.now().saturating_sub(at), u64::from(packets));
    }

    fn next_handed(&mut self, host: u32) -> Option<Handed<Part>> {
        let now = self.scheduler.now();
        let Host { rx, edge, queues, .. } = &mut self.hosts[host as usize];
        let packets = &mut self.fabric.packets;
        rx.next(&mut Io { now, config: &self.config, edge, packets, frames: &Pooled(&self.pool) }, |to| {
            queues.as_ref()?.standing(to, now)
        })
    }

    pub(super) fn timer(&mut self, host: u32, id: TimerId, generation: u16) {
        let event = |id, generation| Event::Timer { id, generation };
        if self.timers.fire(id, generation, host, &mut self.scheduler, event) {
            let now = self.scheduler.now();
            self.hosts[host as usize].edge.handle_timeout(now);
            self.drain_edge(host);
        }
    }

    /// Hands up released segments, then the edge's own packets; sets its timer.
    fn drain_edge(&mut self, host: u32) {
        let now = self.scheduler.now();
        loop {
            let Host { rx, edge, .. } = &mut self.hosts[host as usize];
            let packets = &mut self.fabric.packets;
            let mut io = Io { now, config: &self.config, edge, packets, frames: &Pooled(&self.pool) };
            let Some(segment) = rx.released(&mut io) else { break };
            self.deliver(host, &segment);
        }
        self.edge_transmit(host);
        self.send_again(host);
        self.release_held(host);
        self.set_edge_timer(host);
    }

    pub(super) fn set_edge_timer(&mut self, host: u32) {
        let event = |id, generation| Event::Timer { id, generation };
        let deadline = self.hosts[host as usize].edge.poll_timeout();
        self.timers.set(host, deadline, host, &mut self.scheduler, event);
    }

    fn release(&mut self, segment: &Segment) {
        segment.parts.iter().for_each(|part| self.pool.release(part.frame));
    }

    /// Writes a segment to the host's kernel.
    pub(super) fn deliver(&mut self, host: u32, segment: &Segment) {
        let h = &mut self.hosts[host as usize];
        h.counters.rx_segments += 1;
        h.counters.rx_bytes += u64::from(segment.packet.headers.payload);
        if !write(h, segment, &self.pool) {
            h.counters.rx_refused += 1;
        }
        self.release(segment);
    }
}

fn write(h: &mut Host, segment: &Segment, pool: &Pool) -> bool {
    let packet = &segment.packet;
    let Some(head) = head_of(packet, segment.parts.len() > 1, pool) else { return false };
    let mut pieces = Vec::with_capacity(1 + segment.parts.len().min(64));
    pieces.push(IoSlice::new(&head.bytes));
    if frame::is_opaque(&packet.headers) {
        pieces.push(IoSlice::new(&pool.frame(packet.slot)[head.bytes.len()..]));
    } else {
        let mut parts = segment.parts.iter().peekable();
        while let Some(&first) = parts.next() {
            let mut len = first.len;
            // Neighbours in one frame are one piece.
            while let Some(next) = parts.next_if(|p| p.frame == first.frame && p.offset == first.offset + len) {
                len += next.len;
            }
            let frame = pool.frame(first.frame);
            let Some(start) = frame::payload_start(frame, &packet.headers) else { return false };
            let from = start + first.offset as usize;
            let Some(bytes) = frame.get(from..from + len as usize) else { return false };
            if !bytes.is_empty() {
                pieces.push(IoSlice::new(bytes));
            }
        }
    }
    h.port.send(&head.vnet, &pieces).unwrap_or(false)
}
