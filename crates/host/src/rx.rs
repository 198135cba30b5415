//! From the fabric to guest TCP: receive ring, poll, GRO, edge.

use crate::connection::{received, EndId};
use crate::experiment::Gro as GroMode;
use crate::gro::{Gro, RxSegment};
use crate::world::{Event, World};
use edge::{Direction, Slot, Verdict};
use fabric::PacketId;
use units::Time;

impl World<'_> {
    /// A packet reached its host's NIC.
    pub(crate) fn receive(&mut self, host: u32, id: PacketId) {
        let config = &self.experiment.hosts;
        let now = self.scheduler.now();
        let h = &mut self.hosts[host as usize];
        if h.ring_len >= config.rx_ring {
            h.rx_ring_drops += 1;
            self.fabric.packets.remove(id);
            return;
        }
        h.ring.push(id, &mut self.fabric.packets);
        h.ring_len += 1;
        let wait = if h.ring_len >= config.rx_coalesce_frames { Time::ZERO } else { config.rx_coalesce };
        let at = (now + wait).max(h.rx_core_free_at);
        if h.poll_at.is_none_or(|due| at < due) {
            h.poll_at = Some(at);
            h.poll_generation = h.poll_generation.wrapping_add(1);
            self.scheduler.schedule(at, host, Event::Poll { generation: h.poll_generation });
        }
    }

    /// One NAPI poll.
    pub(crate) fn poll(&mut self, host: u32, generation: u16) {
        let index = host as usize;
        if self.hosts[index].poll_generation != generation {
            return;
        }
        let now = self.scheduler.now();
        let experiment = self.experiment;
        let mut up = std::mem::take(&mut self.up);
        let mut gro = std::mem::take(&mut self.hosts[index].gro);
        let (mut packets, mut bytes) = (0, 0);
        while packets < experiment.hosts.rx_budget {
            let h = &mut self.hosts[index];
            let Some(id) = h.ring.pop(&mut self.fabric.packets) else { break };
            h.ring_len -= 1;
            packets += 1;
            bytes += u64::from(self.fabric.packets.body(id).headers.payload);
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
        h.rx_packets += u64::from(packets);
        if let Some(cpu) = &experiment.hosts.cpu {
            self.charge(host, cpu.rx_packets(packets, bytes));
        }
        if experiment.edge.reorder.is_some() || self.edge_transmits() {
            self.hosts[index].edge.end_batch(now);
            self.drain_edge(host);
        }
        let h = &mut self.hosts[index];
        h.poll_at = None;
        if h.ring_len > 0 {
            let at = h.rx_core_free_at.max(now);
            h.poll_at = Some(at);
            h.poll_generation = h.poll_generation.wrapping_add(1);
            self.scheduler.schedule(at, host, Event::Poll { generation: h.poll_generation });
        }
    }

    /// One packet from the ring: to the edge's reorder engine packet by packet where that is on, else to GRO.
    fn merge(&mut self, host: u32, id: PacketId, gro: &mut Gro, up: &mut Vec<RxSegment>) {
        let reordered = self.experiment.edge.reorder.is_some() && self.fabric.packets.body(id).headers.has_cell != 0;
        if reordered {
            let now = self.scheduler.now();
            let standing = self.standing(host, self.fabric.packets.body(id).src);
            let headers = &mut self.fabric.packets.body_mut(id).headers;
            let edge = &mut self.hosts[host as usize].edge;
            match edge.process_limited(now, Direction::Ingress, Slot(id), headers, standing) {
                Verdict::Hold => {}
                Verdict::Forward => {
                    let packet = self.fabric.packets.take(id);
                    self.deliver(host, &RxSegment::new(packet));
                }
                Verdict::Consume | Verdict::Drop(_) => self.fabric.packets.remove(id),
            }
            return;
        }
        let packet = self.fabric.packets.take(id);
        match self.experiment.hosts.gro {
            GroMode::Off => up.push(RxSegment::new(packet)),
            GroMode::Stock => gro.receive(packet, up),
        }
    }

    /// A merged segment on its way through the edge.
    fn ingress(&mut self, host: u32, mut segment: RxSegment) {
        let now = self.scheduler.now();
        let standing = self.standing(host, segment.packet.src);
        let edge = &mut self.hosts[host as usize].edge;
        if self.experiment.edge.reorder.is_none() {
            // The slot is never used: without a reorder engine nothing is held.
            let (slot, headers) = (Slot::default(), &mut segment.packet.headers);
            if edge.process_limited(now, Direction::Ingress, slot, headers, standing) == Verdict::Forward {
                self.deliver(host, &segment);
            }
            return;
        }
        // A segment without a flowcell waits behind the segments that the engine releases before it.
        let slot = self.fabric.packets.add(segment.packet);
        let headers = &mut self.fabric.packets.body_mut(slot).headers;
        match edge.process_limited(now, Direction::Ingress, Slot(slot), headers, standing) {
            Verdict::Hold => {}
            Verdict::Forward => {
                segment.packet = self.fabric.packets.take(slot);
                self.deliver(host, &segment);
            }
            Verdict::Consume | Verdict::Drop(_) => self.fabric.packets.remove(slot),
        }
    }

    /// Hands up released segments, with the slots of a merged segment joined, then the edge's own packets; sets its timer.
    pub(crate) fn drain_edge(&mut self, host: u32) {
        let now = self.scheduler.now();
        let index = host as usize;
        while let Some(release) = self.hosts[index].edge.poll_release(now) {
            let packet = self.fabric.packets.take(release.slot.0);
            match &mut self.hosts[index].joining {
                Some(segment) if release.joins_previous => segment.append(&packet),
                joining => {
                    if let Some(done) = joining.replace(RxSegment::new(packet)) {
                        self.deliver(host, &done);
                    }
                }
            }
        }
        if let Some(last) = self.hosts[index].joining.take() {
            self.deliver(host, &last);
        }
        self.drain_edge_transmit(host);
    }

    fn charge(&mut self, host: u32, cost: Time) {
        let now = self.scheduler.now();
        let h = &mut self.hosts[host as usize];
        h.rx_core_free_at = h.rx_core_free_at.max(now) + cost;
        h.rx_cpu_busy += cost;
    }

    /// Delivers a segment to the guest's TCP and lets the applications at both ends react.
    pub(crate) fn deliver(&mut self, host: u32, segment: &RxSegment) {
        let h = &mut self.hosts[host as usize];
        h.rx_segments += 1;
        h.rx_bytes += u64::from(segment.packet.headers.payload);
        if segment.packet.flow >= crate::sampling::PROBE {
            self.probe_arrived(host, segment);
            return;
        }
        let id = EndId(segment.packet.flow);
        let now = self.scheduler.now();
        let Some(connection) = self.connections.get(id.connection()) else { return };
        if !connection.owns(id, &segment.packet) {
            return;
        }
        self.couple(id);
        let end = &mut self.connections[id.connection()].ends[id.end()];
        let disorder_before = end.rx.counters.out_of_order;
        end.on_segment(now, &received(segment));
        let out_of_order = (end.rx.counters.out_of_order - disorder_before) as u32;
        if let Some(cpu) = &self.experiment.hosts.cpu {
            let cost = cpu.rx_segments(1, out_of_order);
            self.charge(host, cost);
        }
        self.note_segment(id, segment);
        self.after_subflow(id);
        self.after_tcp(id);
        self.after_delivery(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{EdgeConfig, Experiment, HostConfig, Record};
    use crate::workload::{HostMap, Pairs, Pattern, Workload};
    use fabric::{Multipath, Packet, RandomLoss, SwitchConfig};

    /// A sender whose flow table was full sends without flowcell numbers until there is room again.
    #[test]
    fn a_segment_without_a_flowcell_waits_behind_its_flow() {
        let long = Pattern::Long { pairs: Pairs::Fixed(vec![(0, 1)]), size: None };
        let experiment = Experiment {
            topology: topology::SingleSwitch {
                hosts: 2,
                host_rate: units::BitRate::from_gbps(10),
                host_delay: Time::from_us(1),
            }
            .build()
            .unwrap(),
            switches: SwitchConfig::default(),
            multipath: Multipath::Ecmp,
            loss: RandomLoss::default(),
            failures: Vec::new(),
            reroute_after: Time::ZERO,
            hosts: HostConfig::default(),
            edge: EdgeConfig { reorder: Some(edge::reorder::Config::default()), ..EdgeConfig::default() },
            racks: HostMap::uniform(2, 1),
            workloads: vec![Workload::new("long", long)],
            duration: Time::from_ms(1),
            drain: Time::ZERO,
            warmup: Time::ZERO,
            seed: 1,
            record: Record::default(),
        };
        let mut world = World::new(&experiment).unwrap();
        let packet = |seq, has_cell| {
            let headers = wire::Packet {
                seq,
                payload: 1000,
                proto: wire::proto::TCP,
                tcp_flags: wire::tcp::ACK,
                has_cell,
                ..wire::Packet::default()
            };
            Packet { dst: 1, headers, ..Packet::default() }
        };
        // Not the slot that an unused name would stand for.
        let other = world.fabric.packets.add(packet(9000, 0));
        let held = world.fabric.packets.add(packet(0, 1));
        world.merge(1, held, &mut Gro::default(), &mut Vec::new());
        world.ingress(1, RxSegment::new(packet(1000, 0)));
        world.drain_edge(1);
        assert_eq!((world.hosts[1].rx_segments, world.hosts[1].rx_bytes), (2, 2000));
        assert_eq!(world.fabric.packets.live(), 1);
        assert_eq!(world.fabric.packets.take(other).headers.seq, 9000);
    }
}
