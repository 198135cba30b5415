//! What becomes of the packets that CoDel picks out: some are dropped, and their sources may hear of all of them.
//!
//! Sources hear by ICMP Source Quench (RFC 792), as in the comparison of FastLane's report (Zats et al. 2013, section 5). The messages
//! have the priority of data and quote the first eight bytes behind the IP header. Their number has no cap.
//!
//! A port is looked at when the head of its wire arrives, so all this happens up to a wire's delay after the packet left the queue.

use crate::codel::Fate;
use crate::fabric::{Event, Fabric};
use crate::packet::{flow_hash, Packet};
use crate::port::PortId;
use sim::Scheduler;
use wire::proto;

/// IP header, ICMP header, quoted IP header and eight bytes, Ethernet.
const QUENCH_OCTETS: u32 = 20 + 8 + 20 + 8 + 38;

/// The message to the source of a TCP packet.
fn quench(of: &Packet) -> Option<Packet> {
    if of.headers.proto != proto::TCP {
        return None;
    }
    // Ports and sequence number are the quoted ones.
    let headers = wire::Packet {
        saddr: of.headers.daddr,
        daddr: of.headers.saddr,
        proto: proto::ICMP,
        family: of.headers.family,
        sport: of.headers.sport,
        dport: of.headers.dport,
        seq: of.headers.seq,
        ip_header_len: 20,
        l4_header_len: 8,
        ..wire::Packet::default()
    };
    let outer = wire::Packet { sport: 0, dport: 0, ..headers };
    Some(Packet {
        src: of.dst,
        dst: of.src,
        wire_len: QUENCH_OCTETS,
        hash: flow_hash(&outer),
        flow: of.flow,
        priority: of.priority,
        headers,
        ..Packet::default()
    })
}

impl Fabric {
    /// Has what CoDel picked out at a port seen to.
    #[inline]
    pub(crate) fn arm_picked<E: Copy + From<Event>>(&mut self, port_id: PortId, scheduler: &mut Scheduler<E>) {
        let port = &mut self.ports[port_id as usize];
        if port.arm_picked() {
            scheduler.schedule(scheduler.now(), port.from, Event::Picked { port: port_id }.into());
        }
    }

    #[cold]
    pub(crate) fn see_to_picked<E: Copy + From<Event>>(&mut self, port_id: PortId, scheduler: &mut Scheduler<E>) {
        let node = self.ports[port_id as usize].from;
        for (id, fate) in self.ports[port_id as usize].take_picked() {
            let came = self.packets.body(id).came;
            let message = if self.quenches { quench(self.packets.body(id)) } else { None };
            if fate == Fate::Dropped {
                let bytes = u64::from(self.packets.hop(id).wire_len);
                let lost = &mut self.ports[port_id as usize].lost;
                lost.packets += 1;
                lost.bytes += bytes;
                self.notify(id, came, scheduler);
                self.lose(id);
            }
            let Some(message) = message else { continue };
            let quench = self.packets.add(message);
            self.quenches_sent += 1;
            self.sent_bytes += u64::from(QUENCH_OCTETS);
            match self.next_hop(node, quench, came, scheduler.now().as_ps()) {
                Some(next) if self.enqueue(next, quench, scheduler) => {}
                Some(_) => self.lose(quench),
                None => {
                    self.unroutable_packets += 1;
                    self.lost_bytes += u64::from(QUENCH_OCTETS);
                    self.lose(quench);
                }
            }
        }
    }
}
