//! Which port a switch sends a packet out of.

use crate::config::{Multipath, Parallel};
use crate::conga::{choose, Header};
use crate::fabric::Fabric;
use crate::flowlets::{Flowlet, Flowlets};
use crate::packet::{Packet, PacketId, PORT_LABELS};
use crate::port::PortId;
use topology::NodeId;

impl Fabric {
    /// The ports that a packet with that hash crosses between two hosts where all switches hash it and nothing waits, the source's own
    /// first.
    pub fn trace(&mut self, src: u32, dst: u32, hash: u32) -> Vec<PortId> {
        let id = self.packets.add(Packet { src, dst, hash, label: PORT_LABELS, ..Packet::default() });
        let mut crossed = vec![self.uplinks[src as usize]];
        while let Some(&came) = crossed.last() {
            let node = self.ports[came as usize].to;
            self.packets.hop_mut(id).count_hop();
            if node == dst || crossed.len() > self.nodes.len() {
                break;
            }
            let Some(next) = self.plain_hop(node, id, came, 0) else { break };
            crossed.push(next);
        }
        self.packets.remove(id);
        crossed
    }

    /// The port by which `node` sends on a packet that came over the wire of the port `came`; `None`: there is none.
    pub(crate) fn next_hop(&mut self, node: NodeId, id: PacketId, came: PortId, now: u64) -> Option<PortId> {
        if self.conga.is_some() {
            return self.conga_hop(node, id, came, now);
        }
        self.plain_hop(node, id, came, now)
    }

    /// The same without CONGA. Hashing alone is inlined.
    #[inline]
    pub(crate) fn plain_hop(&mut self, node: NodeId, id: PacketId, came: PortId, now: u64) -> Option<PortId> {
        let packet = self.packets.hop(id);
        let dst = self.routing.host(packet.dst);
        if let Some(port) = dst.last_hop(node) {
            return Some(port);
        }
        if !self.hashes || packet.follows_tree() {
            return self.chosen_hop(node, id, came, now);
        }
        match self.routing.equal_hops_to(node, dst) {
            hops @ [_, _, ..] => Some(pick(hops, packet.hash, self.nodes[node as usize].seed)),
            hops => hops.first().copied(),
        }
    }

    /// At a switch to which the destination is not joined.
    #[inline(never)]
    fn chosen_hop(&mut self, node: NodeId, id: PacketId, came: PortId, now: u64) -> Option<PortId> {
        let packet = self.packets.hop_mut(id);
        if packet.follows_tree() && self.multipath != Multipath::EcmpFlowcell {
            if self.parallel == Parallel::InOrder {
                if let Some(port) = self.whole_label(node, id) {
                    return Some(port);
                }
            } else {
                if packet.hops() == 1 {
                    packet.label = self.routing.relabel(&self.topology, node, packet.dst, packet.label);
                }
                if let Some(port) = self.routing.labelled(&self.topology, node, packet.dst, packet.label) {
                    return Some(port);
                }
            }
        }
        let packet = self.packets.hop(id);
        let (hash, crossed) = (packet.hash, packet.hops());
        let hops = self.routing.equal_hops(node, packet.dst);
        let &[first, _, ..] = hops else { return hops.first().copied() };
        if self.parallel == Parallel::InOrder && crossed > 1 {
            // All lead to one switch: they are parallel.
            let to = self.ports[first as usize].to;
            if hops.iter().all(|&h| self.ports[h as usize].to == to) {
                let rank = self.ranks[came as usize];
                let same = hops.iter().find(|&&h| self.ranks[h as usize] == rank);
                return Some(*same.unwrap_or(&hops[usize::from(rank) % hops.len()]));
            }
        }
        let seed = self.nodes[node as usize].seed;
        match self.multipath {
            Multipath::Spray => Some(hops[self.draws[node as usize].below(hops.len() as u64) as usize]),
            Multipath::Ecmp | Multipath::Wcmp | Multipath::Conga { .. } => Some(pick(hops, hash, seed)),
            Multipath::EcmpFlowcell => {
                let hash = hash ^ self.packets.body(id).headers.cell.wrapping_mul(0x9e37_79b1);
                Some(pick(hops, hash, seed))
            }
            Multipath::LetFlow { .. } => {
                let table = &mut self.flowlets[node as usize];
                let place = Flowlets::place(mix(hash, seed));
                match table.find(place, now) {
                    Flowlet::Goes(port) if hops.contains(&port) => Some(port),
                    _ => {
                        let port = hops[self.flowlet_draws[node as usize].below(hops.len() as u64) as usize];
                        table.set(place, port);
                        Some(port)
                    }
                }
            }
        }
    }

    /// The next hop along a packet's label with [`Parallel::InOrder`]: at the first switch of a label whose way is whole, further on only
    /// if its link is up.
    fn whole_label(&mut self, node: NodeId, id: PacketId) -> Option<PortId> {
        let packet = self.packets.hop_mut(id);
        let whole = |port: &PortId| self.routing.equal_hops(node, packet.dst).contains(port);
        let own = self.routing.labelled(&self.topology, node, packet.dst, packet.label);
        if let Some(port) = own.filter(whole) {
            return Some(port);
        }
        if packet.hops() > 1 {
            return None;
        }
        packet.label = self.routing.relabel(&self.topology, node, packet.dst, packet.label);
        self.routing.labelled(&self.topology, node, packet.dst, packet.label)
    }

    /// CONGA: the source leaf chooses, those between report, the destination leaf learns. Labelled packets have no overlay header.
    fn conga_hop(&mut self, node: NodeId, id: PacketId, came: PortId, now: u64) -> Option<PortId> {
        let packets = self.packets.high_water();
        let packet = self.packets.hop(id);
        let (dst, hash, label, crossed) = (packet.dst, packet.hash, packet.label, packet.hops());
        let last = self.routing.host(dst).last_hop(node);
        let conga = self.conga.as_mut()?;
        if last.is_some() {
            if crossed > 1 {
                let header = *conga.header(id, packets);
                let src = self.topology.leaf_of(self.packets.body(id).src);
                let (leaf, peer) = (conga.leaf(node), conga.leaf(src));
                conga.leaves[leaf].received(peer, header, now);
            }
            return last;
        }
        if crossed > 1 || label != 0 {
            if crossed == 1 {
                *conga.header(id, packets) = Header::NONE;
            }
            let port = self.plain_hop(node, id, came, now)?;
            let metric = self.congestion(port, now);
            let header = self.conga.as_mut()?.header(id, packets);
            header.ce = header.ce.max(metric);
            return Some(port);
        }
        let (leaf, peer) = (conga.leaf(node), conga.leaf(self.topology.leaf_of(dst)));
        let place = Flowlets::place(mix(hash, self.nodes[node as usize].seed));
        let flowlet = conga.flowlets[leaf].find(place, now);
        let hops = self.routing.equal_hops(node, dst);
        let last = match flowlet {
            Flowlet::Goes(port) | Flowlet::After(port) => Some(port),
            Flowlet::First => None,
        };
        let goes = matches!(flowlet, Flowlet::Goes(port) if hops.contains(&port));
        let port = match last {
            Some(port) if goes => port,
            _ => {
                let hops = hops.to_vec();
                hops.iter().for_each(|&port| self.advance(port, now));
                let conga = self.conga.as_ref()?;
                let cost = |&port: &PortId| {
                    let remote = conga.leaves[leaf].remote(peer, conga.lbtag(port), now);
                    (port, remote.max(self.ports[port as usize].congestion(now)))
                };
                choose(hops.iter().map(cost), last, |n| self.flowlet_draws[node as usize].below(n))?
            }
        };
        let conga = self.conga.as_mut()?;
        conga.flowlets[leaf].set(place, port);
        let (lbtag, feedback) = (conga.lbtag(port), conga.leaves[leaf].feedback(peer, now));
        *conga.header(id, packets) = Header { lbtag, ce: 0, feedback };
        Some(port)
    }

    /// CONGA's metric of a port now.
    fn congestion(&mut self, port: PortId, now: u64) -> u8 {
        self.advance(port, now);
        self.ports[port as usize].congestion(now)
    }
}

/// A hash as one switch sees it.
#[inline]
fn mix(hash: u32, seed: u32) -> u32 {
    let mut h = (hash ^ seed).wrapping_mul(0x9e37_79b1);
    h = (h ^ (h >> 15)).wrapping_mul(0x85eb_ca6b);
    h ^ h >> 13
}

/// The per-switch hash: the packet's hash mixed with the switch's seed, scaled to the number of next hops.
#[inline]
fn pick(hops: &[PortId], hash: u32, seed: u32) -> PortId {
    hops[((u64::from(mix(hash, seed)) * hops.len() as u64) >> 32) as usize]
}
