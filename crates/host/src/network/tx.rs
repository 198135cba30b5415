//! From the guest to the fabric: edge, limiter, NIC queue, split.

use super::discover::outer_hash;
use super::host::{InNic, TxSegment};
use super::{Network, Sent};
use crate::clock::Event;
use crate::connection::{cut, split, ECHO};
use crate::experiment::{host_of, Limiter};
use crate::ports;
use edge::fastlane::Resend;
use edge::limiter::Standing;
use edge::{Direction, Slot, Verdict};
use fabric::Packet;
use units::Time;

impl Network<'_> {
    /// Passes a segment through its host's edge into the NIC queue.
    pub(crate) fn transmit(&mut self, mut packet: Packet) -> Sent {
        let now = self.clock.now();
        let host = packet.src;
        let from_guest = self.experiment.edge.fastlane.is_some().then_some(packet);
        let standing = self.arrival(&packet);
        packet.first = standing.is_some_and(|standing| standing.first);
        let h = &mut self.hosts[host as usize];
        packet.headers.wire = h.edge.wire();
        self.wants_paths(host, packet.dst);
        let h = &mut self.hosts[host as usize];
        h.last_slot = h.last_slot.wrapping_add(1);
        let slot = Slot(h.last_slot);
        let verdict = match packet.again {
            true => h.edge.process_resent(now, slot, &mut packet.headers, standing),
            false => h.edge.process_limited(now, Direction::Egress, slot, &mut packet.headers, standing),
        };
        if let Some((from_guest, slot)) = from_guest.and_then(|packet| Some((packet, h.edge.poll_kept()?))) {
            h.kept.insert(slot, from_guest);
        }
        if self.edge_has_timers {
            self.transmit_added(&packet);
            self.set_edge_timer(host);
        }
        if !matches!(verdict, Verdict::Forward | Verdict::Hold) {
            return Sent::Dropped;
        }
        packet.label = packet.headers.label;
        packet.hash = outer_hash(&packet);
        let edge = &mut self.hosts[host as usize].edge;
        packet.int = edge.asks_for_utilisation();
        if verdict == Verdict::Hold {
            let label = packet.label;
            self.hosts[host as usize].held.insert(slot, packet);
            return Sent::Queued { label };
        }
        self.depart(packet)
    }

    /// What the edge adds to a segment belongs to the same flow and goes first.
    #[inline(never)]
    fn transmit_added(&mut self, packet: &Packet) {
        let (now, host) = (self.clock.now(), packet.src);
        while let Some(mut extra) = self.hosts[host as usize].edge.poll_transmit(now) {
            if extra.packet.proto == edge::hygenicc::PROTO {
                self.transmit_made(host, extra.packet);
                continue;
            }
            let label = extra.packet.label;
            edge::ecn::departs(&mut extra.packet);
            let options = wire::TcpOptions::default();
            let mut extra = Packet { headers: extra.packet, label, options, ..*packet };
            extra.hash = outer_hash(&extra);
            // A full limiter drops it.
            let _ = self.queue_for_nic(extra);
        }
    }

    /// Sends what a host's edge sends again, and forgets what it need not keep.
    pub(crate) fn send_again(&mut self, host: u32) {
        while let Some(Resend { slot, index, .. }) = self.hosts[host as usize].edge.poll_resend() {
            if let Some(segment) = self.hosts[host as usize].kept.get(&slot) {
                let packet = Packet { again: true, ..split(segment, index) };
                self.transmit(packet);
            }
        }
        let h = &mut self.hosts[host as usize];
        while let Some(slot) = h.edge.poll_forgotten() {
            h.kept.remove(&slot);
        }
    }

    /// A segment leaves its edge, with the feedback of this moment.
    fn depart(&mut self, mut packet: Packet) -> Sent {
        let now = self.clock.now();
        let departure = self.hosts[packet.src as usize].edge.depart(now, &mut packet.headers);
        packet.feedback = departure.feedback;
        if self.experiment.edge.hidden {
            packet.options.hidden = departure.option;
            packet.label = packet.headers.label;
            packet.hash = fabric::flow_hash(&packet.headers);
            packet.int &= departure.option.is_some();
        }
        self.queue_for_nic(packet)
    }

    /// Lets go what the edge has held and may leave now. Returns what the limiter had no room for, where senders wait to hear of it.
    pub(crate) fn release_held(&mut self, host: u32) -> Vec<InNic> {
        let now = self.clock.now();
        let mut dropped = Vec::new();
        while let Some(slot) = self.hosts[host as usize].edge.poll_departure(now) {
            let Some(packet) = self.hosts[host as usize].held.remove(&slot) else { continue };
            if !matches!(self.depart(packet), Sent::Queued { .. }) {
                dropped.extend(InNic::of(&packet));
            }
        }
        dropped
    }

    /// A packet that a host's edge sends of its own accord, to another edge.
    pub(super) fn transmit_made(&mut self, host: u32, mut made: wire::Packet) {
        edge::ecn::departs(&mut made);
        let feedback =
            wire::feedback::Feedback { kind: made.feedback, path: made.feedback_path, value: made.feedback_value };
        let headers = wire::Packet { seq: u32::MAX, ..made };
        let hash = crate::connection::flow_hash(&headers);
        // No guest gets it: the number of an answered probe that was never sent.
        let packet =
            Packet { src: host, dst: host_of(&made.daddr), hash, flow: ECHO, headers, feedback, ..Packet::default() };
        let _ = self.queue_for_nic(packet);
    }

    /// A packet of the host's own, which no limiter sees.
    pub(super) fn send_own(&mut self, packet: Packet) {
        let now = self.clock.now();
        let host = packet.src;
        self.queue(host, TxSegment { packet, ready_at: now, queued_at: now });
        self.tx_go(host);
    }

    /// Into the NIC's queue: at its end, or by rank where packets have one. A flow keeps its order.
    fn queue(&mut self, host: u32, segment: TxSegment) {
        let queue = &mut self.hosts[host as usize].tx_queue;
        if self.experiment.hosts.tcp.pfabric.is_none() {
            queue.push_back(segment);
            return;
        }
        let before =
            |other: &TxSegment| other.packet.rank <= segment.packet.rank || other.packet.flow == segment.packet.flow;
        let at = queue.iter().rposition(before).map_or(0, |last| last + 1);
        queue.insert(at, segment);
    }

    fn queue_for_nic(&mut self, packet: Packet) -> Sent {
        let (now, host) = (self.clock.now(), packet.src);
        let label = if self.experiment.edge.hidden { ports::number(packet.label) } else { packet.label };
        let h = &mut self.hosts[host as usize];
        let mut ready_at = now;
        if let Some(cpu) = &self.experiment.hosts.cpu {
            let cost = cpu.tx(packet.headers.packet_count(), packet.headers.payload);
            h.tx_core_free_at = h.tx_core_free_at.max(now) + cost;
            h.tx_cpu_busy += cost;
            ready_at = h.tx_core_free_at;
        }
        let segment = TxSegment { packet, ready_at, queued_at: now };
        if h.shaper.is_none() {
            self.queue(host, segment);
        } else if !self.limit(host, segment) {
            return Sent::NoRoom { label };
        }
        self.tx_go(host);
        Sent::Queued { label }
    }

    /// Into the limiter of a host that has one, or past it. False: it has no room.
    #[inline(never)]
    fn limit(&mut self, host: u32, segment: TxSegment) -> bool {
        let (now, packet) = (self.clock.now(), segment.packet);
        let class = self.experiment.edge.limiter.as_ref().and_then(|limiter| limiter.class_of(packet.dst));
        let (Some(shaper), Some(class)) = (&mut self.hosts[host as usize].shaper, class) else {
            self.queue(host, segment);
            return true;
        };
        let at = Standing { class, first: packet.first, ..Standing::default() };
        let bytes = Limiter::bytes(&packet.headers);
        if shaper.enqueue(now, &at, segment, &packet.headers, bytes).is_err() {
            return false;
        }
        self.limiters.backlog_max = self.limiters.backlog_max.max(shaper.backlog(class));
        true
    }

    /// The NIC's wake-up: what it was sending has left. Returns that if a sender waits to hear of it.
    pub(crate) fn tx_event(&mut self, host: u32) -> Option<InNic> {
        let now = self.clock.now();
        let h = &mut self.hosts[host as usize];
        if h.tx_event == Some(now) {
            h.tx_event = None;
        }
        let done = if h.nic_free_at <= now { h.in_nic.take() } else { None };
        self.tx_go(host);
        done
    }

    /// A segment that the limiter of a host has dropped from its queue, if a sender waits to hear that it has left.
    pub(crate) fn poll_dropped(&mut self, host: u32) -> Option<InNic> {
        let shaper = self.hosts[host as usize].shaper.as_mut()?;
        std::iter::from_fn(|| shaper.poll_dropped()).find_map(|segment| InNic::of(&segment.packet))
    }

    /// Starts the next segment if the NIC is idle; otherwise makes sure that it will be woken.
    ///
    /// The NIC hands the fabric one segment at a time, so its port never queues more than that: everything else waits
    /// here, where it is counted once.
    fn tx_go(&mut self, host: u32) {
        let now = self.clock.now();
        loop {
            let h = &mut self.hosts[host as usize];
            let next_at = match h.tx_queue.front() {
                _ if h.in_nic.is_some() => h.nic_free_at,
                Some(next) => next.ready_at.max(h.nic_free_at),
                None if h.shaper.is_none() => return,
                None => match self.dequeue(host) {
                    Ok(()) => continue,
                    Err(None) => return,
                    Err(Some(at)) => at,
                },
            };
            let h = &mut self.hosts[host as usize];
            if h.in_nic.is_some() || next_at > now {
                let at = next_at.max(now);
                if h.tx_event.is_none_or(|pending| at < pending) {
                    h.tx_event = Some(at);
                    self.clock.schedule(at, host, Event::Tx);
                }
                return;
            }
            let Some(next) = h.tx_queue.pop_front() else { return };
            self.put_on_wire(host, &next.packet, now);
        }
    }

    /// Lets a host's limiter give the NIC's empty queue a segment, as a qdisc does when the NIC can take it.
    ///
    /// # Errors
    /// None may go: when to ask again, if ever.
    #[inline(never)]
    fn dequeue(&mut self, host: u32) -> Result<(), Option<Time>> {
        let now = self.clock.now();
        let h = &mut self.hosts[host as usize];
        let Some(shaper) = &mut h.shaper else { return Err(None) };
        let due = if h.nic_free_at <= now { shaper.dequeue(now) } else { None };
        let Some(mut due) = due else { return Err(shaper.poll_timeout(now).map(|at| at.max(h.nic_free_at))) };
        if due.mark {
            due.item.packet.headers.mark_ce();
        }
        h.tx_queue.push_back(due.item);
        if self.measuring {
            self.limiters.delays.push(now.saturating_sub(due.item.queued_at));
        }
        Ok(())
    }

    fn put_on_wire(&mut self, host: u32, segment: &Packet, now: Time) {
        for i in 0..segment.headers.packet_count() {
            let packet = self.fabric.packets.add_changed(segment, |packet| cut(packet, i));
            self.fabric.send(packet, self.clock.scheduler());
        }
        let free_at = self.fabric.uplink_free_at(host, now);
        let h = &mut self.hosts[host as usize];
        h.nic_free_at = free_at;
        if let Some(left) = InNic::of(segment) {
            h.in_nic = Some(left);
        }
    }
}
