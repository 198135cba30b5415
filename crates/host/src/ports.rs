//! Source ports that take known paths, for runs that give them to edges.
//!
//! A fabric that hashes ports has no labels for paths, and not every run is to wait until edges have discovered some.

use crate::experiment::{edge_address, guest_address, Experiment};
use edge::{Balance, Edge};
use fabric::{flow_hash, Fabric, PortId, PORT_LABELS};
use std::net::{IpAddr, Ipv4Addr};
use wire::{hidden, proto, Packet};

/// Ports among which paths are looked for: as many as a survey of path discovery traces.
const CANDIDATES: u16 = 64;

/// Source ports that edges take until they have discovered paths, as the agent does.
pub(crate) const GUESSED: [u16; 8] = [50_000, 50_001, 50_002, 50_003, 50_004, 50_005, 50_006, 50_007];

/// What switches hash of a packet between the edges of two hosts in the hidden overlay.
pub(crate) fn headers(src: u32, dst: u32, port: u16) -> Packet {
    Packet {
        saddr: [0, 0, 0xffff, edge_address(src)],
        daddr: [0, 0, 0xffff, edge_address(dst)],
        sport: port,
        dport: hidden::PORT,
        proto: proto::TCP,
        family: 4,
        ..Packet::default()
    }
}

/// Source ports for at most `most` paths of the hidden overlay between two hosts, the most disjoint that 64 ports take. Their low bytes
/// differ.
pub fn known(fabric: &mut Fabric, src: u32, dst: u32, most: usize) -> Vec<u16> {
    let name = |port: PortId| IpAddr::from(Ipv4Addr::from(port));
    let mut paths: Vec<(u16, Vec<IpAddr>)> = Vec::new();
    for port in (PORT_LABELS..).take(usize::from(CANDIDATES)) {
        let crossed = fabric.trace(src, dst, flow_hash(&headers(src, dst, port)));
        let path: Vec<IpAddr> = crossed.into_iter().map(name).collect();
        if paths.iter().all(|(_, known)| *known != path) {
            paths.push((port, path));
        }
    }
    let hops: Vec<&[IpAddr]> = paths.iter().map(|(_, path)| path.as_slice()).collect();
    discovery::choose(&hops, most).into_iter().map(|n| paths[n].0).collect()
}

/// Schemes that keep states of paths begin with the first one of a schedule. Where each host had the same first one, all would
/// begin there. So a host's begins where its `seed` says.
pub fn turned(balance: &Balance, seed: u64, labels: &[u16]) -> Vec<u16> {
    let mut labels = labels.to_vec();
    if balance.keeps().is_some() && !labels.is_empty() {
        let by = seed % labels.len() as u64;
        labels.rotate_left(by as usize);
    }
    labels
}

/// Under which number a flow is said to have used a label of the hidden overlay: its path's index, plus 1; 0: it was hashed.
pub fn number(label: u16) -> u16 {
    match label {
        PORT_LABELS.. => (label & (CANDIDATES - 1)) + 1,
        _ => label,
    }
}

/// Gives all edges of the hidden overlay, in the order of their hosts, as many paths to each other host as the fabric has trees.
pub(crate) fn give<'a>(experiment: &Experiment, fabric: &mut Fabric, edges: impl Iterator<Item = &'a mut Edge>) {
    let (topology, plain) = (&experiment.topology, &experiment.hosts.plain);
    let most = topology.base_trees().len();
    for (src, edge) in topology.hosts().zip(edges).filter(|(src, _)| !plain.contains(src)) {
        for dst in topology.hosts().filter(|dst| *dst != src && !plain.contains(dst)) {
            let labels = known(fabric, src, dst, most);
            for guest in experiment.guests() {
                edge.set_schedule(guest_address(dst, guest), &labels);
            }
        }
    }
}
