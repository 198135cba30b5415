//! Packets that the data path asks for: reports and counts of marks to peers, and ACKs to guests.

use super::reconcile::Agent;
use super::tally::Sent;
use edge::vcc;
use kernel::emit::{self, Interface, Uplink};
use kernel::state::{address, Event, EMIT_DUPACK, EMIT_FACK, MARKS_BEGIN, ROUTE_LOCAL, ROUTE_PEER};
use kernel::Error as KernelError;
use std::collections::btree_map::{BTreeMap, Entry};
use std::io;
use wire::feedback::MARKS;
use wire::Packet;

/// Why a packet was not sent. All of these may be another's doing, and none needs a remedy.
#[derive(Debug, thiserror::Error)]
enum Unsent {
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error(transparent)]
    System(#[from] io::Error),
    #[error(transparent)]
    Packet(#[from] wire::EmitError),
    /// The port, route or peer went away meanwhile.
    #[error("nobody is there")]
    Nobody,
}

/// A count that is older than a peer takes for overtaken would be a restart to it, and later marks would count twice. Events wait for so
/// long where an agent was away.
const STALE_NS: u64 = 50_000_000;

/// Without a tunnel counts are what is new, and older ones are still true.
const OLD_NS: u64 = 1_000_000_000;

/// `begins`: it goes with where counting begins, which no later count says again. A peer that has taken a later count for that begins anew.
fn is_stale(asked: u64, now: u64, begins: bool) -> bool {
    now.saturating_sub(asked) > if begins { OLD_NS } else { STALE_NS }
}

impl Agent {
    /// A stage asks for a packet to a peer.
    pub(super) fn answer_event(&mut self, event: &Event, uplink: &mut Option<Uplink>, sent: &mut Sent) {
        if event.value & EMIT_FACK == 0 {
            return;
        }
        match self.send_to_peer(event, &vcc::feedback_packet(&event.packet), uplink) {
            Ok(()) => sent.facks += 1,
            Err(_) => sent.failures += 1,
        }
    }

    /// A peer is to hear how many packets of a pair of guests arrived marked.
    pub(super) fn answer_marks(&self, event: &Event, uplink: &mut Option<Uplink>, sent: &mut Sent) {
        let now = kernel::monotonic_ns();
        if self.config.plain {
            // A sum, which nothing later says again; but of another time it says nothing of today's congestion.
            if now.saturating_sub(event.time) > OLD_NS {
                return;
            }
            match self.send_plain(&event.packet, Some(event.value as u16), uplink) {
                Ok(()) => sent.marks += 1,
                Err(_) => sent.failures += 1, // as if the network had lost it
            }
            return;
        }
        let begins = (event.value & MARKS_BEGIN != 0).then_some(0);
        if is_stale(event.time, now, begins.is_some()) {
            return;
        }
        for count in begins.into_iter().chain([event.value as u16]) {
            let [feedback_path, feedback_value] = count.to_be_bytes();
            let packet = Packet { feedback: MARKS, feedback_path, feedback_value, ..event.packet };
            match self.send_to_peer(event, &packet, uplink) {
                Ok(()) => sent.marks += 1,
                Err(_) => sent.failures += 1, // the next count says the same
            }
        }
    }

    /// To the edge of the guest that the event's packet is for. That edge consumes it: no station ever sees the addresses.
    fn send_to_peer(&self, event: &Event, packet: &Packet, uplink: &mut Option<Uplink>) -> Result<(), Unsent> {
        let port = self.edge.port(event.ifindex)?.ok_or(Unsent::Nobody)?;
        let route = self.edge.route(port.vni, address(event.packet.daddr))?.ok_or(Unsent::Nobody)?;
        let peer = if route.kind == ROUTE_PEER { self.edge.peer(route.target)? } else { None };
        let peer = peer.ok_or(Unsent::Nobody)?;
        if self.config.plain {
            return self.send_plain(packet, None, uplink);
        }
        let frame = emit::frame(packet, port.mac, route.mac)?;
        let uplink = match uplink {
            Some(uplink) => uplink,
            None => uplink.insert(Uplink::open()?),
        };
        Ok(uplink.send(&peer, port.vni, packet, &frame)?)
    }

    /// The same without a tunnel, by the host's routes. `marks`: of a packet that counts them.
    fn send_plain(&self, packet: &Packet, marks: Option<u16>, uplink: &mut Option<Uplink>) -> Result<(), Unsent> {
        let uplink = match uplink {
            Some(uplink) => uplink,
            None => uplink.insert(Uplink::open_plain()?),
        };
        Ok(uplink.send_plain(&emit::plain(packet, marks)?)?)
    }

    /// The timer laws ask for a packet to a guest. `known`: the interfaces that were opened for this already.
    pub(super) fn answer_timer(&self, event: &Event, known: &mut BTreeMap<u32, Interface>, sent: &mut Sent) {
        let copies = if event.value == EMIT_DUPACK { vcc::DUPLICATE_ACKS } else { 1 };
        match self.send_to_guest(event.ifindex, &event.packet, copies, known) {
            Ok(()) if copies > 1 => sent.timeouts += 1,
            Ok(()) => sent.window_updates += 1,
            Err(_) => sent.failures += 1,
        }
    }

    fn send_to_guest(
        &self,
        network: u32,
        packet: &Packet,
        copies: usize,
        known: &mut BTreeMap<u32, Interface>,
    ) -> Result<(), Unsent> {
        let route = self.edge.route(network, address(packet.daddr))?.ok_or(Unsent::Nobody)?;
        let port = if route.kind == ROUTE_LOCAL { self.edge.port(route.target)? } else { None };
        let port = port.filter(|port| port.mac != [0; 6]).ok_or(Unsent::Nobody)?;
        let frame = emit::frame(packet, super::desired::EDGE_MAC, port.mac)?;
        let interface = match known.entry(route.target) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(Interface::open(route.target)?),
        };
        (0..copies).try_for_each(|_| interface.send(&frame))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_an_agent_that_was_away_are_stale() {
        let stale = |ms: u64| is_stale(1_000_000_000, ms * 1_000_000, false);
        assert_eq!(
            [stale(999), stale(1000), stale(1050), stale(1051), stale(60_000)],
            [false, false, false, true, true]
        );
        assert_eq!([2000, 2001].map(|ms: u64| is_stale(1_000_000_000, ms * 1_000_000, true)), [false, true]);
    }
}
