//! An [`Edge`]'s way of hiding its guests' packets, and how a segment leaves with and without.

use super::Edge;
use crate::{ecn, Direction, DropReason};
use units::Time;
use wire::feedback::Feedback;
use wire::{encap, hidden, proto, tcp, version, Packet};

/// What goes with a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure {
    /// For the edge at its destination.
    pub feedback: Feedback,
    /// To be put into its TCP header (`wire::hidden::enter`): its headers are those of an edge's packet now.
    pub option: Option<hidden::Bytes>,
}

impl Edge {
    /// A segment leaves, of which [`process`](Edge::process) has said so: its feedback of this moment, its codepoint on the wire. Call
    /// once for each.
    pub fn depart(&mut self, now: Time, pkt: &mut Packet) -> Departure {
        let Some(config) = &self.config.hidden else {
            let feedback = self.feedback_to(now, pkt);
            ecn::departs(pkt);
            return Departure { feedback, option: None };
        };
        let (local, mtu) = (config.address, config.mtu);
        let remote = config.peers.edge_of(&pkt.daddr);
        let is_tcp = pkt.proto == proto::TCP && pkt.family == 4 && remote != 0 && remote != local;
        if is_tcp && pkt.has_flags(tcp::SYN) && pkt.mss > hidden::mss(mtu) && hidden::mss(mtu) != 0 {
            pkt.mss = hidden::mss(mtu);
            self.counters.hidden.lowered_mss += 1;
        }
        if !is_tcp || !hidden::fits(pkt, mtu) {
            let counters = &mut self.counters.hidden;
            counters.no_room_segments += u64::from(is_tcp);
            counters.plain_segments += u64::from(!is_tcp);
            // Nothing at the other end takes off what stands for a path, a cell or a mark.
            (pkt.label, pkt.has_cell, pkt.cell, pkt.wire) = (0, 0, 0, version::ONE);
            return Departure { feedback: Feedback::default(), option: None };
        }
        self.counters.hidden.hidden_segments += 1;
        let feedback = self.feedback_to(now, pkt);
        ecn::departs(pkt);
        (pkt.feedback, pkt.feedback_path, pkt.feedback_value) = (feedback.kind, feedback.path, feedback.value);
        let hash = crate::native::hash(&pkt.flow_key(), self.config.seed);
        let option = hidden::swap(pkt, local, remote, hash);
        Departure { feedback, option: Some(option.bytes()) }
    }

    /// Is this packet from the fabric for [`restore`](Edge::restore)?
    pub fn is_hidden(&self, pkt: &Packet) -> bool {
        self.config.hidden.as_ref().is_some_and(|config| hidden::is(pkt, config.address))
    }

    /// Makes a packet from another edge the guest's again, with the `option` of its header (`wire::hidden::option`), and says what its
    /// edge told with it. Before anything else is done with the packet.
    ///
    /// # Errors
    /// The packet is to be dropped.
    pub fn restore(&mut self, pkt: &mut Packet, option: Option<&hidden::Bytes>) -> Result<Feedback, DropReason> {
        let Some(config) = &self.config.hidden else { return Err(DropReason::Malformed) };
        let counters = &mut self.counters.hidden;
        let Some(hidden) = option.and_then(hidden::Hidden::read) else {
            counters.malformed_packets += 1;
            return Err(DropReason::Malformed);
        };
        let from = pkt.saddr[3];
        let key = hidden.flow_key();
        let [source, destination] = [key.saddr, key.daddr].map(|guest| config.peers.edge_of(&guest));
        if !hidden::may(from, source, config.address, destination) {
            counters.forged_packets += 1;
            return Err(DropReason::Forged);
        }
        counters.restored_packets += 1;
        hidden::restore(pkt, &hidden);
        if pkt.has_cell != 0 {
            let id = self.table.find(Direction::Ingress, pkt);
            let newest = id.map_or(0, |id| self.table.both(id).0.state.newest_cell());
            pkt.cell = encap::full_cell(newest, hidden.cell);
        }
        Ok(Feedback { kind: hidden.feedback, path: hidden.path, value: hidden.value })
    }

    /// Must a guest's segment not leave?
    pub(super) fn refuses(&mut self, pkt: &Packet) -> bool {
        let Some(config) = &self.config.hidden else { return false };
        let stranger = pkt.family == 4 && config.peers.edge_of(&pkt.saddr) != config.address;
        let refused = stranger || config.peers.is_edge(&pkt.daddr);
        self.counters.hidden.refused_segments += u64::from(refused);
        refused
    }
}
