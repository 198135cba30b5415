//! From a host's kernel to its uplink: through the edge, cut into packets.

use super::driver::Driver;
use super::frame::{self, Ignored};
use super::merge::Segment;
use edge::{Direction, Known, Slot, Verdict};
use fabric::Packet;
use port::{FrameId, VnetHeader};
use units::Time;
use wire::feedback::Feedback;
use wire::hidden;

/// Packets that one segment may make: more than any kernel's own, and a bound on what a hostile one can cause.
const MAX_PACKETS: u32 = 2048;
/// Packets in the model at once.
const MAX_LIVE: usize = 1 << 20;

impl Driver {
    /// One frame through the edge, cut, onto the uplink.
    pub(super) fn transmit(&mut self, now: Time, host: u32, id: FrameId) {
        let header = self.pool.header(id);
        let n_hosts = self.hosts.len() as u32;
        let mut segment = match frame::read(self.pool.frame(id), &header, host, n_hosts, id) {
            Ok(segment) if segment.headers.packet_count() <= MAX_PACKETS => segment,
            refused => {
                let h = &mut self.hosts[host as usize];
                match refused {
                    Err(Ignored::NotIp | Ignored::NoHost) => h.counters.ignored += 1,
                    Err(Ignored::Malformed) | Ok(_) => h.counters.malformed += 1,
                }
                self.pool.release(id);
                return;
            }
        };
        if frame::is_opaque(&segment.headers) {
            self.arrival(now, host, &mut segment);
            self.send(now, host, id, &segment);
            return;
        }
        let before = segment;
        let verdict = self.egress(now, host, id, &mut segment);
        self.keep(host, &before);
        match verdict {
            Verdict::Forward => self.depart(now, host, id, segment),
            Verdict::Hold => drop(self.hosts[host as usize].held.insert(id, segment)),
            Verdict::Consume | Verdict::Drop(_) => self.pool.release(id),
        }
    }

    /// The edge's part.
    pub(super) fn egress(&mut self, now: Time, host: u32, id: FrameId, segment: &mut Packet) -> Verdict {
        let standing = self.arrival(now, host, segment);
        let edge = &mut self.hosts[host as usize].edge;
        segment.headers.wire = edge.wire();
        let stamp = || wire::timestamp(self.pool.frame(id), &segment.headers);
        let stamp = edge.acts_on_notifications().then(stamp).flatten();
        let verdict = match segment.again {
            true => edge.process_resent(now, Slot(id), &mut segment.headers, standing),
            false => {
                let known = Known { standing, stamp };
                edge.process_known(now, Direction::Egress, Slot(id), &mut segment.headers, known)
            }
        };
        // What the edge adds goes first.
        self.edge_transmit(host);
        segment.label = segment.headers.label;
        segment.int = self.hosts[host as usize].edge.asks_for_utilisation();
        verdict
    }

    /// A segment leaves its edge, with the feedback of this moment.
    pub(super) fn depart(&mut self, now: Time, host: u32, id: FrameId, mut segment: Packet) {
        if segment.headers.dirty & !wire::dirty::LABEL != 0 {
            let header = self.pool.header(id);
            match frame::rewrite(&mut segment.headers, self.pool.frame_mut(id), &header, &mut self.resized) {
                Ok(true) => {
                    self.pool.replace(id, &self.resized);
                    segment.wire_len = frame::wire_len(self.resized.len() as u32);
                }
                Ok(false) => {}
                Err(_) => self.hosts[host as usize].counters.malformed += 1,
            }
        }
        segment.headers.dirty = 0;
        let mss = segment.headers.mss;
        let departure = self.hosts[host as usize].edge.depart(now, &mut segment.headers);
        segment.feedback = departure.feedback;
        let hides = self.hosts[host as usize].edge.config().hidden.is_some();
        if hides && !self.hide(id, &mut segment, departure.option, mss) {
            self.hosts[host as usize].counters.malformed += 1;
            self.pool.release(id);
            return;
        }
        self.send(now, host, id, &segment);
    }

    /// Does to a segment's frame what the hidden overlay has done to its headers; `mss` is what its SYN said. False: they do not fit each
    /// other.
    fn hide(&mut self, id: FrameId, segment: &mut Packet, option: Option<hidden::Bytes>, mss: u16) -> bool {
        let undone = self.pool.header(id).needs_csum();
        if segment.headers.mss != mss {
            hidden::clamp(self.pool.frame_mut(id), &segment.headers, segment.headers.mss, undone);
        }
        segment.label = segment.headers.label;
        segment.int &= option.is_some();
        if let Some(option) = option {
            self.resized.clear();
            self.resized.extend_from_slice(self.pool.frame(id));
            let entered = hidden::enter(&mut self.resized, &segment.headers, &option, undone);
            if entered.is_err() || !self.pool.replace(id, &self.resized) {
                return false;
            }
            segment.options.hidden = Some(option);
            segment.wire_len = frame::wire_len(self.resized.len() as u32);
        }
        segment.hash = fabric::flow_hash(&segment.headers);
        true
    }

    /// Lets go what the host's edge has held and may leave now.
    pub(super) fn release_held(&mut self, host: u32) {
        let now = self.scheduler.now();
        while let Some(Slot(id)) = self.hosts[host as usize].edge.poll_departure(now) {
            if let Some(segment) = self.hosts[host as usize].held.remove(&id) {
                self.depart(now, host, id, segment);
            }
        }
    }

    /// Sends what a host's edge made: to the fabric, or to the host itself.
    pub(super) fn edge_transmit(&mut self, host: u32) {
        let now = self.scheduler.now();
        while let Some(extra) = self.hosts[host as usize].edge.poll_transmit(now) {
            let peer = host::experiment::host_of;
            let (from, to) = match extra.dir {
                Direction::Egress => (host, peer(&extra.packet.daddr)),
                Direction::Ingress => (peer(&extra.packet.saddr), host),
            };
            if from.max(to) as usize >= self.hosts.len() {
                continue;
            }
            if extra.packet.proto == edge::hygenicc::PROTO {
                self.send_feedback(now, host, to, extra.packet);
                continue;
            }
            let Some(bytes) = frame::made(&extra.packet, from, to) else { continue };
            let Some(id) = self.pool.insert(VnetHeader::default(), &bytes) else {
                self.pool_exhausted += 1;
                continue;
            };
            match frame::read(self.pool.frame(id), &VnetHeader::default(), from, self.hosts.len() as u32, id) {
                Ok(mut packet) if extra.dir == Direction::Egress => {
                    packet.label = extra.packet.label;
                    packet.headers.label = extra.packet.label;
                    // A report of version 2 stands beside the packet, in a shim.
                    let (to, from) = (&mut packet.headers, &extra.packet);
                    (to.wire, to.pack, to.tcp_reserved) = (from.wire, from.pack, from.tcp_reserved);
                    (to.pack_total, to.pack_ce, to.outer_ecn) = (from.pack_total, from.pack_ce, from.outer_ecn);
                    edge::ecn::departs(&mut packet.headers);
                    self.send(now, host, id, &packet);
                }
                Ok(packet) => self.deliver(host, &Segment::new(packet)),
                Err(_) => self.pool.release(id),
            }
        }
    }

    /// A packet to another edge, which no guest gets: its frame is empty.
    fn send_feedback(&mut self, now: Time, host: u32, to: u32, mut made: wire::Packet) {
        let Some(id) = self.pool.insert(VnetHeader::default(), &[0; frame::LEAST]) else {
            self.pool_exhausted += 1;
            return;
        };
        edge::ecn::departs(&mut made);
        let feedback = Feedback { kind: made.feedback, path: made.feedback_path, value: made.feedback_value };
        let (wire_len, hash) = (frame::wire_len(frame::LEAST as u32), fabric::flow_hash(&made));
        let packet =
            Packet { src: host, dst: to, slot: id, wire_len, hash, headers: made, feedback, ..Packet::default() };
        self.send(now, host, id, &packet);
    }

    /// Cuts a segment and puts it onto its host's uplink.
    pub(super) fn launch(&mut self, now: Time, host: u32, id: FrameId, segment: &Packet) {
        let packets = segment.headers.packet_count();
        if self.fabric.packets.live() + packets as usize > MAX_LIVE {
            self.pool_exhausted += 1;
            self.pool.release(id);
            return;
        }
        let h = &mut self.hosts[host as usize];
        h.counters.tx_segments += 1;
        h.counters.tx_packets += u64::from(packets);
        h.counters.tx_bytes += u64::from(segment.headers.payload);
        self.flows.note(now, segment);
        self.pool.share(id, packets - 1);
        for i in 0..packets {
            let packet = self.fabric.packets.add(frame::cut(segment, i));
            self.fabric.send(packet, &mut self.scheduler);
        }
        // A host whose own link is down.
        for slot in self.fabric.take_lost_slots() {
            self.pool.release(slot);
        }
    }
}
