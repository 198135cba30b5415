//! From the fabric to a host's kernel, as in the modelled hosts (`host/src/rx.rs`): ring, poll, merging, edge.

use super::driver::{head, Driver, Event};
use super::frame;
use super::host::Host;
use super::merge::{Gro, Segment};
use crate::port::Pool;
use edge::{Direction, Slot, Verdict};
use fabric::PacketId;
use host::experiment::Gro as GroMode;
use sim::TimerId;
use std::io::IoSlice;
use units::Time;

impl Driver {
    pub(super) fn arrived(&mut self, host: u32, id: PacketId) {
        let now = self.scheduler.now();
        let h = &mut self.hosts[host as usize];
        if h.ring_len >= self.config.rx_ring {
            h.counters.rx_ring_drops += 1;
            self.forget(id);
            return;
        }
        h.counters.rx_packets += 1;
        h.ring.push(id, &mut self.fabric.packets);
        h.ring_len += 1;
        let wait = if h.ring_len >= self.config.rx_coalesce_frames { Time::ZERO } else { self.config.rx_coalesce };
        let at = now + wait;
        if h.poll_at.is_none_or(|due| at < due) {
            h.poll_at = Some(at);
            h.poll_generation = h.poll_generation.wrapping_add(1);
            self.scheduler.schedule(at, host, Event::Poll { generation: h.poll_generation });
        }
    }

    fn forget(&mut self, id: PacketId) {
        let packet = self.fabric.packets.take(id);
        self.pool.release(packet.slot);
    }

    pub(super) fn poll(&mut self, at: Time, host: u32, generation: u16) {
        let index = host as usize;
        if self.hosts[index].poll_generation != generation {
            return;
        }
        let mut up = std::mem::take(&mut self.up);
        let mut gro = std::mem::take(&mut self.hosts[index].gro);
        let mut packets = 0;
        while packets < self.config.rx_budget {
            let h = &mut self.hosts[index];
            let Some(id) = h.ring.pop(&mut self.fabric.packets) else { break };
            h.ring_len -= 1;
            packets += 1;
            self.merge(host, id, &mut gro, &mut up);
            for segment in up.drain(..) {
                self.ingress(host, segment);
            }
        }
        gro.flush(&mut up);
        for segment in up.drain(..) {
            self.ingress(host, segment);
        }
        self.up = up;
        let h = &mut self.hosts[index];
        h.gro = gro;
        h.edge.end_batch(at);
        h.poll_at = None;
        if h.ring_len > 0 {
            h.poll_at = Some(at);
            h.poll_generation = h.poll_generation.wrapping_add(1);
            let generation = h.poll_generation;
            self.scheduler.schedule(at, host, Event::Poll { generation });
        }
        self.drain_edge(host);
        self.lateness.note(self.clock.now().saturating_sub(at), u64::from(packets));
    }

    /// One packet from the ring: to the edge's reorder engine packet by packet where that is on, else merged.
    fn merge(&mut self, host: u32, id: PacketId, gro: &mut Gro, up: &mut Vec<Segment>) {
        if self.reorders && self.fabric.packets.body(id).headers.has_cell != 0 {
            let now = self.scheduler.now();
            let standing = self.standing(now, host, self.fabric.packets.body(id).src);
            let packet = self.fabric.packets.body_mut(id);
            let edge = &mut self.hosts[host as usize].edge;
            match edge.process_limited(now, Direction::Ingress, Slot(id), &mut packet.headers, standing) {
                Verdict::Hold => {}
                Verdict::Forward => {
                    let packet = self.fabric.packets.take(id);
                    self.deliver(host, &Segment::new(packet));
                }
                Verdict::Consume | Verdict::Drop(_) => self.forget(id),
            }
            return;
        }
        let packet = self.fabric.packets.take(id);
        match self.config.gro {
            GroMode::Stock if !self.reorders => gro.receive(packet, &self.pool, up),
            // What the reorder engine may have to hold is one packet of the model.
            GroMode::Stock | GroMode::Off => up.push(Segment::new(packet)),
        }
    }

    /// A merged segment on its way through the edge.
    fn ingress(&mut self, host: u32, mut segment: Segment) {
        if frame::is_opaque(&segment.packet.headers) {
            self.deliver(host, &segment);
            return;
        }
        let now = self.scheduler.now();
        let standing = self.standing(now, host, segment.packet.src);
        let edge = &mut self.hosts[host as usize].edge;
        if !self.reorders {
            // The slot is never used: without a reorder engine nothing is held.
            let headers = &mut segment.packet.headers;
            match edge.process_limited(now, Direction::Ingress, Slot::default(), headers, standing) {
                Verdict::Forward => self.deliver(host, &segment),
                _ => self.release(&segment),
            }
            return;
        }
        // A segment without a flowcell still has to wait its turn behind what the engine releases before it.
        let id = self.fabric.packets.add(segment.packet);
        let headers = &mut self.fabric.packets.body_mut(id).headers;
        match edge.process_limited(now, Direction::Ingress, Slot(id), headers, standing) {
            Verdict::Hold => {}
            Verdict::Forward => {
                segment.packet = self.fabric.packets.take(id);
                self.deliver(host, &segment);
            }
            Verdict::Consume | Verdict::Drop(_) => self.forget(id),
        }
    }

    pub(super) fn timer(&mut self, host: u32, id: TimerId, generation: u16) {
        let event = |id, generation| Event::Timer { id, generation };
        if self.timers.fire(id, generation, host, &mut self.scheduler, event) {
            let now = self.scheduler.now();
            self.hosts[host as usize].edge.handle_timeout(now);
            self.drain_edge(host);
        }
    }

    /// Hands up what the edge releases, joining packets of one segment, and sets its timer.
    fn drain_edge(&mut self, host: u32) {
        let now = self.scheduler.now();
        let index = host as usize;
        while let Some(release) = self.hosts[index].edge.poll_release(now) {
            let packet = self.fabric.packets.take(release.slot.0);
            let joins = |segment: &Segment| release.joins_previous && segment.accepts(&packet, &self.pool);
            match &mut self.hosts[index].joining {
                Some(segment) if joins(segment) => segment.append(&packet),
                joining => {
                    if let Some(done) = joining.replace(Segment::new(packet)) {
                        self.deliver(host, &done);
                    }
                }
            }
        }
        if let Some(last) = self.hosts[index].joining.take() {
            self.deliver(host, &last);
        }
        self.edge_transmit(host);
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
    let Some(head) = head(packet, segment.parts.len() > 1, pool) else { return false };
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
